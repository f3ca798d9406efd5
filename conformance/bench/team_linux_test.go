package bench

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"gander.dev/gander/conformance/model"
)

// sameTask measures a turn of the orchestrator with one task beside the same prompt to the agent
// that does it, both warm, and each word of it on its way through two routers and through one.
// The client knows child sessions: it is shown each word.
func (b *bench) sameTask() {
	team, one, bare := b.warmTeam(), b.warm(b.ganderACP(b.goose)), b.warm(b.gooseACP())
	var with, without samples
	prompt := func(c *client, text string, s *samples) func() {
		return func() {
			begun := time.Now()
			c.finish(text, nil)
			s.took(begun)
		}
	}
	alternate(b.runs(30), prompt(team, tasks("Hello.", "warm"), &with), prompt(one, "Hello.", &without))
	b.table.within(150, pair{"a turn with one task, model that answers at once, beside the same prompt to its agent", with, without, inMS})

	var two, single, alone samples
	words := func(c *client, wrap func(string) string, s *samples) func() {
		return func() { s.add(b.latenciesOf(c, wrap).median()) }
	}
	asTask := func(script string) string { return tasks(script, "warm") }
	asItIs := func(script string) string { return script }
	alternate(b.runs(30), words(team, asTask, &two), words(one, asItIs, &single), words(bare, asItIs, &alone))
	b.table.atMost(2, pair{"added latency per streamed chunk of a task, beside a session's", two.minus(alone), single.minus(alone), inUS})
	bare.stop()

	const more = 3
	var task, session samples
	grows := func(c *client, another func(i int)) float64 {
		before := b.resident(c.cmd.Process.Pid)
		for i := range more {
			another(i)
		}
		return (b.resident(c.cmd.Process.Pid) - before) / more
	}
	task.add(grows(team, func(i int) { team.finish(tasks("Hello.", fmt.Sprint("further-", i)), nil) }))
	session.add(grows(one, func(int) { one.newSession(one.cmd.Dir); one.finish("Hello.", nil) }))
	b.table.tell(pair{"resident memory of gander for each further task, beside a further session's", task, session, inMB})
	team.stop()
	one.stop()
}

// tasks is a prompt with which the orchestrator gives goose a task in a thread.
func tasks(message, thread string) string {
	steps, _ := json.Marshal([]any{ // texts always encode
		map[string]any{"tool": "delegate_to_agent", "args": map[string]string{"targetAgentId": "goose", "taskKey": thread, "message": message, "mode": "direct"}},
		map[string]any{"tool": "finish", "args": map[string]string{"message": "Done."}},
	})
	return "please " + model.Embed(string(steps))
}

// warmTeam starts gander with the orchestrator, and has one thread of goose warm.
func (b *bench) warmTeam() *client {
	b.t.Helper()
	cmd := b.ganderTeam()
	c := start(b.t, cmd)
	c.request("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{"subagents": map[string]any{}}}, nil)
	c.newSession(cmd.Dir)
	for range 3 {
		c.finish(tasks("Hello.", "warm"), nil)
	}
	return c
}

func (b *bench) ganderTeam() *exec.Cmd {
	cmd := b.ganderACP(b.goose)
	cmd.Args = append(cmd.Args, "--agent", "orchestrator")
	cmd.Env = append(cmd.Env, "ORCHESTRATOR_MODEL=gpt-4o")
	return cmd
}

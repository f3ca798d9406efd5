package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/conformance/model"
)

// One turn of the orchestrator: a fix by the cell's agent, a review by the other one that
// cannot write, and a second fix in the first thread, about which the person is asked under
// the agent's name. Then a cancel that leaves nothing of a task, and another process that goes
// on with the threads.
func TestOrchestrator(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		first, second := w.cell.agent, agents[1]
		if first == second {
			second = agents[0]
		}
		env := second.env(t)
		maps.Copy(env, map[string]string{"ORCHESTRATOR_MODEL": "gpt-4o"})
		e := w.gander(env)
		e.initialize()
		project := w.mkdir("project")
		w.write(project, "calc.txt", "broken\n")
		s := e.session(project)
		if _, err := s.setOption("agent", "orchestrator"); err != nil {
			t.Fatal(err)
		}

		turn := s.prompt(plan(t,
			task(first, "fix", "", script(t, first.runs("echo fixed > calc.txt"), says("It is fixed."))),
			task(second, "review", "read", script(t, second.runs("cat calc.txt; echo spoiled > calc.txt"), says("The last line is missing."))),
			task(first, "fix", "", script(t, first.runs("echo last >> calc.txt"), says("It is added."))),
			step{"tool": "finish", "args": map[string]any{"message": "Fixed and reviewed."}},
		)).done("end_turn")
		if got := w.read(filepath.Join(project, "calc.txt")); got != "fixed\nlast\n" {
			t.Errorf("calc.txt holds %q", got)
		}
		if got := turn.text(); got != "Fixed and reviewed." {
			t.Errorf("the answer is %q", got)
		}
		shown := everything(turn)
		for _, want := range []string{"It is fixed.", "The last line is missing.", "It is added."} {
			if !strings.Contains(shown, want) {
				t.Errorf("%q of a task is not shown", want)
			}
		}
		var before planned
		eventually(t, "the trace to have both threads, one of them used twice", func() bool {
			before = w.lastRun(t)
			return len(before.Threads) == 2 && before.Threads[0].UpdatedStep != before.Threads[0].CreatedStep
		})
		if got := s.prompt("/undo").done("end_turn").text(); !strings.Contains(got, "put calc.txt back as it was") {
			t.Errorf("/undo says %q", got)
		}

		if err := s.setMode("ask"); err != nil {
			t.Fatal(err)
		}
		asking := s.prompt(plan(t, task(first, "fix", "", script(t, first.runs("touch asked.txt"), says("Made."))), step{"tool": "finish", "args": map[string]any{"message": "Done."}}))
		ask := e.permission(1)
		if !strings.Contains(ask.ToolCall.Title, first.name+" · fix: touch asked.txt") || ask.SessionID != s.id {
			t.Errorf("asked for session %s: %q", ask.SessionID, ask.ToolCall.Title)
		}
		e.choose(ask, "allow_once")
		asking.done("end_turn")
		if _, err := os.Stat(filepath.Join(project, "asked.txt")); err != nil {
			t.Error(err)
		}

		if err := s.setMode("auto"); err != nil {
			t.Fatal(err)
		}
		m := mark(t, 0)
		many := first.runs("export GANDER_E2E_MARK=" + m + "; for i in $(seq 30); do sleep 600 & done; wait")
		p := s.prompt(plan(t, task(first, "fix", "", script(t, many, says("not reached"))), says("not reached")))
		eventually(t, "the processes of the task", func() bool { return len(marked(t, m)) >= 31 })
		s.cancel()
		cancelled(t, "a task", p, m)

		e.end()
		e = w.gander(env)
		e.initialize()
		s, _ = e.load(s.id, project)
		s.prompt(plan(t,
			task(first, "fix", "", script(t, says("I go on."))), task(second, "review", "read", script(t, says("I, too."))),
			step{"tool": "finish", "args": map[string]any{"message": "Went on."}},
		)).done("end_turn")
		eventually(t, "the trace to have the threads of the process before", func() bool {
			after := w.lastRun(t)
			return slices.EqualFunc(after.Threads, before.Threads, func(a, b taskThread) bool { return a.SessionID == b.SessionID })
		})
	})
}

// The cell's agent plans in the place of a model, in a sandbox where it can write nothing.
func TestAgentPlans(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		w.write(w.mkdir("gander"), "config.json", strings.TrimSuffix(clerkConfig, "}")+`, "orchestrator": {"planner": "`+w.cell.agent.name+`"}}`)
		e := w.gander(map[string]string{"ORCHESTRATOR_MODEL": "gpt-4o"}, "--agent", "orchestrator")
		e.initialize()
		project := w.mkdir("project")
		decide := func(action step) step {
			return says(string(encode(t, step{"rationale": "It is wanted.", "action": action})))
		}
		turn := e.session(project).prompt(plan(
			t, w.shell("echo spoiled > spoiled.txt"), says("I think."),
			decide(step{"type": "delegate_to_agent", "targetAgentId": "clerk", "taskKey": "make", "message": "do: echo made > made.txt; echo It is made.", "mode": "direct"}),
			decide(step{"type": "finish", "message": "All is made."}),
		)).done("end_turn")
		if got := turn.text(); got != "All is made." || !strings.Contains(everything(turn), "It is made.") {
			t.Errorf("the answer is %q: %s", got, everything(turn))
		}
		if got := w.read(filepath.Join(project, "made.txt")); got != "made\n" || exists(filepath.Join(project, "spoiled.txt")) {
			t.Errorf("made.txt holds %q; the planner could write: %t", got, exists(filepath.Join(project, "spoiled.txt")))
		}
		if u := turn.answer.Usage; u == nil || u.TotalTokens == 0 {
			t.Errorf("the usage is %+v", u)
		}
		e.end()
	})
}

// For an editor that knows child sessions each task of the orchestrator is one: shown, asked
// about and cancelled there, while the run goes on.
func TestTasksAsChildSessions(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		agent := w.cell.agent
		env := agent.env(t)
		maps.Copy(env, map[string]string{"ORCHESTRATOR_MODEL": "gpt-4o"})
		e := startEditor(t, launch{command: append(w.acp(), "--agent", "orchestrator"), env: w.ganderEnv(env), uid: w.uid, gid: w.gid, dir: w.dir, unstable: true})
		e.initializeWith(map[string]any{"subagents": map[string]any{}})
		project := w.mkdir("project")
		s := e.session(project)
		if err := s.setMode("ask"); err != nil {
			t.Fatal(err)
		}
		m := mark(t, 0)
		p := s.prompt(plan(t,
			task(agent, "make", "", script(t, agent.runs("echo made > made.txt"), says("It is made."))),
			task(agent, "hang", "", script(t, agent.runs("export GANDER_E2E_MARK="+m+"; sleep 600"), says("not reached"))),
			step{"tool": "finish", "args": map[string]any{"message": "One of two."}},
		))
		ask := e.permission(1)
		e.choose(ask, "allow_once")
		e.choose(e.permission(2), "allow_once")
		eventually(t, "the command of the second task", func() bool { return len(marked(t, m)) > 0 })
		hangs := p.until("the second task", func(u update) bool { return u.State.State == "running" && strings.HasSuffix(u.Title, "hang") })
		e.notify("session/cancel", map[string]any{"sessionId": hangs.SessionID})
		turn := p.done("end_turn")
		eventually(t, "its processes to be gone", func() bool { return len(marked(t, m)) == 0 })
		if got := turn.text(); got != "One of two." {
			t.Errorf("the answer is %q", got)
		}
		var said, ended []string
		for _, c := range turn.children {
			if c.SessionUpdate == "agent_message_chunk" {
				said = append(said, c.text())
			}
		}
		for _, u := range turn.updates {
			if u.State.State == "idle" {
				ended = append(ended, u.Title+" "+u.State.StopReason)
			}
			if u.SessionUpdate == "tool_call" {
				t.Errorf("a tool call stands for a task, too: %s", u.raw)
			}
		}
		if want := []string{agent.name + " · make end_turn", agent.name + " · hang cancelled"}; !slices.Equal(ended, want) || strings.Join(said, "") != "It is made." {
			t.Errorf("the children ended as %q and said %q", ended, said)
		}
		if ask.SessionID == s.id || ask.SessionID == hangs.SessionID {
			t.Errorf("asked for session %s", ask.SessionID)
		}
		if got := w.read(filepath.Join(project, "made.txt")); got != "made\n" {
			t.Errorf("made.txt holds %q", got)
		}
	})
}

// task is a step of the planner that gives an agent a task.
func task(a *agent, key, access, message string) step {
	args := map[string]any{"targetAgentId": a.name, "taskKey": key, "message": message, "mode": "direct"}
	if access != "" {
		args["access"] = access
	}
	return step{"tool": "delegate_to_agent", "args": args}
}

// plan is a prompt with the answers of the planner's model.
func plan(t *testing.T, steps ...step) string { return "please " + model.Embed(encode(t, steps)) }

// planned is the part of a trace that tells of tasks.
type planned struct {
	Mode    string
	Threads []taskThread `json:"taskThreads"`
}

type taskThread struct {
	SessionID, TaskKey       string
	CreatedStep, UpdatedStep int
}

// lastRun reads the trace of the orchestrator's last turn.
func (w *world) lastRun(t *testing.T) planned {
	t.Helper()
	var last planned
	names, err := filepath.Glob(filepath.Join(w.ganderHome(), "runs", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		var run struct{ Orchestration planned }
		if json.Unmarshal([]byte(w.read(name)), &run) == nil && run.Orchestration.Mode == "ai-loop" {
			last = run.Orchestration
		}
	}
	return last
}

package acp

import (
	"path/filepath"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func historyChecks() []Check {
	load := []need{needModel, needLoad}
	return []Check{
		{ID: "load.replay", Requirements: []int{16}, needs: load, run: checkReplay, Text: "load in another process replays what was said on both sides, in order, and then answers"},
		{ID: "load.tools", Requirements: []int{16, 28}, needs: []need{needShell, needLoad}, run: checkReplayTools, Text: "tool calls are replayed with their output and final status"},
		{ID: "load.goes-on", Requirements: []int{17}, needs: load, run: checkLoadGoesOn, Text: "after a load the model gets what was said before, and the next load has all of it"},
		{ID: "load.unknown", Requirements: []int{14}, needs: []need{needLoad}, run: checkLoadUnknown, Text: "load of a session that there never was is an error, whatever the id looks like"},
		{ID: "load.elsewhere", Requirements: []int{13}, needs: []need{needShell, needLoad}, run: checkLoadElsewhere, Text: "a session stays in its directory: load in another one is an error, or works in the session's"},
		{ID: "load.killed", Requirements: []int{47}, needs: load, run: checkLoadKilled, Text: "what was said is there after the agent was killed in the middle of a turn"},
		{ID: "load.same", Requirements: []int{16}, needs: load, run: checkLoadSame, Text: "a session that is open can be loaded, and loading twice shows the same"},
		{ID: "resume.goes-on", Requirements: []int{17, 18}, needs: []need{needModel, needResume}, run: checkResume, Text: "resume in another process continues without a replay"},
		{ID: "resume.unknown", Requirements: []int{14}, needs: []need{needResume}, run: checkResumeUnknown, Text: "resume of a session that there never was is an error"},
	}
}

// again is a new process that has loaded or resumed a session, with what came before the answer.
func (p *probe) again(method, id, cwd string) (*session, []update) {
	a := p.begin(launch{})
	return p.reopen(a, method, id, cwd)
}

func (p *probe) reopen(a *agent, method, id, cwd string) (*session, []update) {
	from := a.Seen()
	params := newParams(cwd)
	params["sessionId"] = id
	f := p.good(a.ask(method, params), method)
	s := &session{agent: a, id: id, cwd: cwd}
	p.decode(f, &s.opened)
	var before []update
	for _, u := range a.of(id, from) {
		if u.n < f.N {
			before = append(before, u)
		}
	}
	return s, before
}

// told has a conversation of two turns and ends its agent.
func (p *probe) told() (id, cwd string) {
	a := p.begin(launch{})
	s := p.open(a, p.mkdir("work"))
	p.done(p.prompt(s, says("first answer Gleam-1")), "end_turn")
	p.done(p.prompt(s, says("second answer Gleam-2")), "end_turn")
	p.leave(a)
	return s.id, s.cwd
}

// leave ends an agent as a client does.
func (p *probe) leave(a *agent) {
	a.CloseStdin()
	if !a.WaitEnd(p.ctx, p.o.Timeout) {
		p.fail("it still runs %v after its stdin ended", p.o.Timeout)
	}
}

// inOrder notes a problem unless the words come one behind the other.
func (p *probe) inOrder(what, text string, words ...string) {
	at := 0
	for _, w := range words {
		i := strings.Index(text[at:], w)
		if i < 0 {
			p.problem("%s does not have %q in its place: %s", what, w, harness.Excerpt(text))
			return
		}
		at += i + len(w)
	}
}

// dialogue is what both sides said, in order.
func dialogue(updates []update) string {
	var b strings.Builder
	for _, u := range updates {
		switch u.SessionUpdate {
		case "user_message_chunk":
			b.WriteString("\nuser: " + u.text())
		case "agent_message_chunk":
			b.WriteString("\nagent: " + u.text())
		}
	}
	return b.String()
}

func checkReplay(p *probe) {
	id, cwd := p.told()
	_, before := p.again("session/load", id, cwd)
	text := dialogue(before)
	p.inOrder("the replay before the answer", text, "user: ", "conformance tag-", "agent: ", "Gleam-1", "user: ", "conformance tag-", "agent: ", "Gleam-2")
	agent := spoken(before, "agent_message_chunk")
	if n := strings.Count(agent, "first answer"); n != 1 {
		p.problem("an answer is replayed %d times: %s", n, harness.Excerpt(agent))
	}
}

func checkReplayTools(p *probe) {
	a := p.begin(launch{})
	s := p.open(a, p.mkdir("work"))
	_, c := p.ran(s, "echo remembered-ou''tput")
	p.leave(a)
	_, before := p.again("session/load", s.id, s.cwd)
	all := calls(before)
	if len(all) != 1 {
		p.fail("one tool call is replayed as %d: %s", len(all), kinds(before))
	}
	if all[0].status != c.status {
		p.problem("the status was %q and is replayed as %q", c.status, all[0].status)
	}
	p.holds("the replayed content", all[0].text, "remembered-output")
}

func checkLoadGoesOn(p *probe) {
	id, cwd := p.told()
	s, _ := p.again("session/load", id, cwd)
	p.remembers(p.done(p.prompt(s, says("third answer Gleam-3")), "end_turn"), "Gleam-1", "Gleam-2")
	p.leave(s.agent)
	_, before := p.again("session/load", id, cwd)
	p.inOrder("the second replay", dialogue(before), "Gleam-1", "Gleam-2", "Gleam-3")
}

// oddIDs are session ids that never were.
var oddIDs = []string{"conformance-no-such-session", "", "../../etc/passwd", "/etc/passwd", "x\x00y", strings.Repeat("long", 2048), "019a0000-0000-7000-8000-000000000000"}

func checkLoadUnknown(p *probe) { p.unknown("session/load") }

func checkResumeUnknown(p *probe) { p.unknown("session/resume") }

func (p *probe) unknown(method string) {
	s := p.session()
	for _, id := range oddIDs {
		p.refused(s.ask(method, map[string]any{"sessionId": id, "cwd": p.dir, "mcpServers": []any{}}), method+" of "+harness.Excerpt(id))
	}
	p.lives(s, "unknown sessions")
}

func checkLoadElsewhere(p *probe) {
	id, cwd := p.told()
	a := p.begin(launch{})
	elsewhere := p.mkdir("elsewhere")
	f := p.frame(a.ask("session/load", map[string]any{"sessionId": id, "cwd": elsewhere, "mcpServers": []any{}}), "session/load in another directory")
	if f.Error != nil {
		return
	}
	p.done(p.prompt(&session{agent: a, id: id, cwd: elsewhere}, runs(": > moved"), says("done")), "end_turn")
	if !exists(filepath.Join(cwd, "moved")) {
		p.problem("the session began in %s and works in %s after a load", cwd, elsewhere)
	}
}

func checkLoadKilled(p *probe) {
	a := p.begin(launch{})
	s := p.open(a, p.mkdir("work"))
	p.done(p.prompt(s, says("first answer Gleam-1")), "end_turn")
	t := p.prompt(s, step{"text": "half of it", "after": 1, "hang": "forever"})
	p.reached(t)
	if err := a.Kill(); err != nil {
		p.fail("SIGKILL: %v", err)
	}
	a.WaitEnd(p.ctx, p.o.Timeout)
	again, before := p.again("session/load", s.id, s.cwd)
	p.inOrder("the replay", dialogue(before), "Gleam-1")
	p.works(again, "the agent was killed in a turn")
}

func checkLoadSame(p *probe) {
	id, cwd := p.told()
	a := p.begin(launch{})
	_, first := p.reopen(a, "session/load", id, cwd)
	s, second := p.reopen(a, "session/load", id, cwd)
	if one, two := strings.Join(strings.Fields(dialogue(first)), " "), strings.Join(strings.Fields(dialogue(second)), " "); one != two {
		p.problem("the first load shows %s, the second %s", harness.Excerpt(one), harness.Excerpt(two))
	}
	p.works(s, "two loads")
}

func checkResume(p *probe) {
	id, cwd := p.told()
	s, before := p.again("session/resume", id, cwd)
	if text := dialogue(before); text != "" {
		p.problem("resume replays %s", harness.Excerpt(text))
	}
	p.remembers(p.done(p.prompt(s, says("third answer Gleam-3")), "end_turn"), "Gleam-1", "Gleam-2")
}

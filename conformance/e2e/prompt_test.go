package e2e

import (
	"slices"
	"strings"
	"testing"
)

// One prompt, all the way: thoughts, text, a tool that changes the project, text.
func TestPrompt(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		if got := e.initialize(); got.AgentInfo.Name != "gander" {
			t.Errorf("initialize says it is %q", got.AgentInfo.Name)
		}
		project := w.mkdir("project")
		s := e.session(project)
		turn := s.prompt(script(
			t,
			w.shell("echo visible; cat given.txt; echo made > made.txt; sleep 0.3; echo late").with(step{"reasoning": "a file is wanted", "text": "Let me see."}),
			step{"text": "one two three four five six seven", "delay": 30},
		)).done("end_turn")

		if got := w.read(project + "/made.txt"); got != "made\n" {
			t.Errorf("made.txt holds %q", got)
		}
		inOrder(t, turn, "agent_thought_chunk", "agent_message_chunk", "tool_call pending", "tool_call_update in_progress",
			"tool_call_update completed", "agent_message_chunk")
		tool, _ := turn.tool(0)
		if tool.Kind != "execute" || !strings.Contains(tool.text(), "late") {
			t.Errorf("the tool call ends as %+v with the text %q", tool, tool.text())
		}
		if !slices.ContainsFunc(turn.updates, func(u update) bool { return !u.final() && strings.Contains(u.text(), "visible") }) {
			t.Error("the output of the command is not shown while it runs")
		}
		if !strings.HasSuffix(turn.text(), "one two three four five six seven") {
			t.Errorf("the agent said %q", turn.text())
		}
		if u := turn.answer.Usage; u == nil || u.TotalTokens == 0 {
			t.Errorf("the answer has the usage %+v", u)
		}
		streamed(t, turn)
		if got := e.end(); got.Code == nil || *got.Code != 0 {
			t.Errorf("gander ends with %v %s", got.Code, got.Signal)
		}
	})
}

// inOrder checks that updates of these kinds come in this order, others between them.
func inOrder(t *testing.T, turn *turn, want ...string) {
	t.Helper()
	rest := want
	for _, kind := range turn.kinds() {
		if len(rest) > 0 && kind == rest[0] {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		t.Errorf("no %s in its place; the updates are: %s", rest[0], strings.Join(turn.kinds(), ", "))
	}
}

// streamed checks that words which the model sends 30 ms apart are not held back
// until the end.
func streamed(t *testing.T, turn *turn) {
	t.Helper()
	for _, u := range turn.updates {
		if u.SessionUpdate == "agent_message_chunk" && strings.Contains(u.text(), "one") {
			if ahead := turn.ended - u.at; ahead.Milliseconds() < 100 {
				t.Errorf("the first words came only %v before the answer", ahead)
			}
			return
		}
	}
	t.Error("the first words never came")
}

// Sessions run side by side: one that waits for its model does not hold up the other.
func TestTwoSessions(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		slow, quick := e.session(w.mkdir("slow")), e.session(w.mkdir("quick"))
		if slow.id == quick.id {
			t.Fatalf("both sessions are %q", slow.id)
		}
		first := slow.prompt(script(t, w.shell("pwd > where"), step{"text": "slow done", "hang": "release"}))
		if err := w.model.WaitHanging(soon(t), 1); err != nil {
			t.Fatalf("the slow session never reached its model: %v", err)
		}
		got := quick.prompt(script(t, w.shell("pwd > where"), says("quick done"))).done("end_turn")
		if text := got.text(); !strings.Contains(text, "quick done") || strings.Contains(text, "slow") {
			t.Errorf("the quick session says %q", text)
		}
		w.model.Release()
		if text := first.done("end_turn").text(); !strings.Contains(text, "slow done") || strings.Contains(text, "quick") {
			t.Errorf("the slow session says %q", text)
		}
		for _, dir := range []string{"slow", "quick"} {
			if at := w.read(w.dir + "/" + dir + "/where"); at != w.dir+"/"+dir+"\n" {
				t.Errorf("the tool of %s ran in %q", dir, at)
			}
		}
	})
}

// Prompts sent during a turn wait, and are answered in order; a cancel ends
// them all, and the session goes on.
func TestPromptsWaitInOrder(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		one := s.prompt(script(t, step{"text": "first", "hang": "release"}))
		if err := w.model.WaitHanging(soon(t), 1); err != nil {
			t.Fatal(err)
		}
		two := s.prompt(script(t, says("second")))
		w.model.Release()
		a, b := one.done("end_turn"), two.done("end_turn")
		if a.ended > b.ended || !strings.Contains(a.text(), "first") || !strings.Contains(b.text(), "second") {
			t.Errorf("the answers are %q at %v, %q at %v", a.text(), a.ended, b.text(), b.ended)
		}

		three := s.prompt(script(t, step{"hang": "forever"}))
		if err := w.model.WaitHanging(soon(t), 1); err != nil {
			t.Fatal(err)
		}
		four := s.prompt(script(t, says("never")))
		s.cancel()
		three.done("cancelled")
		four.done("cancelled")
		if text := s.prompt(script(t, says("again"))).done("end_turn").text(); !strings.Contains(text, "again") {
			t.Errorf("after a cancel the session says %q", text)
		}
	})
}

// An agent that dies in a turn is an error with its last words; the session goes
// on with a fresh one that knows what was said.
func TestAgentDies(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		s.prompt("remember the word heliotrope " + script(t, says("noted"))).done("end_turn")
		p := s.prompt(script(t, step{"hang": "forever"}))
		if err := w.model.WaitHanging(soon(t), 1); err != nil {
			t.Fatal(err)
		}
		killed := 0
		for _, d := range w.below(e) {
			if strings.HasSuffix(d.program, "/"+w.cell.agent.name) {
				d.kill(t)
				killed++
			}
		}
		if killed == 0 {
			t.Fatalf("no %s among the processes below gander: %v", w.cell.agent.name, w.below(e))
		}
		if turn := p.end(); turn.err == nil {
			t.Fatalf("the prompt of a killed agent ends with %q", turn.answer.StopReason)
		}
		if text := s.prompt(script(t, says("back"))).done("end_turn").text(); !strings.Contains(text, "back") {
			t.Errorf("the fresh agent says %q", text)
		}
		all := w.model.Requests()
		if last := string(all[len(all)-1].Body); !strings.Contains(last, "heliotrope") {
			t.Error("the fresh agent was not told what had been said before")
		}
	})
}

// Nothing starts before it is needed, and what is missing is said in a sentence
// that names the fix.
func TestWhatIsMissingIsSaid(t *testing.T) {
	type missing struct {
		name string
		env  map[string]string
		want string // the word that leads to the fix
	}
	inCells(t, func(t *testing.T, w *world) {
		command, model := "GANDER_"+w.cell.variable("_CMD"), w.cell.variable("_MODEL")
		tests := []missing{
			{"agent", map[string]string{command: "/nowhere/agent"}, "/nowhere/agent"},
			{"model address", map[string]string{"LLM_HOST": ""}, "LLM_HOST"},
			{"model", map[string]string{model: ""}, model},
			{"key", map[string]string{"LLM_API_KEY": ""}, "LLM_API_KEY"},
		}
		for name, value := range w.cell.driver.lost {
			tests = append(tests, missing{"sandbox", map[string]string{name: value}, value})
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				w := newWorld(t, w.cell, 0)
				e := w.gander(tt.env)
				e.initialize()
				if below := w.below(e); len(below) > 0 {
					t.Errorf("initialize started %v", below)
				}
				said := firstFailure(e, w.mkdir("project"))
				if !strings.Contains(said, tt.want) {
					t.Errorf("the session does not name what is missing: %q", said)
				}
				e.end()
				if log := e.stderr(); !strings.Contains(log, tt.want) {
					t.Errorf("stderr does not name what is missing: %q", log)
				}
			})
		}
	})
}

// firstFailure opens a session and prompts it, and returns all that a person sees of it.
func firstFailure(e *editor, cwd string) string {
	var opened newSession
	err := e.request("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}}, &opened)
	if err != nil {
		return err.Error()
	}
	s := &session{editor: e, id: opened.SessionID}
	turn := s.prompt("hello").end()
	var said strings.Builder
	said.WriteString(string(turn.err))
	for _, u := range turn.updates {
		said.WriteString(u.text()) // a warning may be a thought
	}
	return said.String()
}

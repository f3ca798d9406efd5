package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// shows are the capabilities of an editor that knows child sessions.
var shows = map[string]any{"subagents": map[string]any{}}

// child is a step that has a sub-agent work.
func (a *agent) child(t *testing.T, kind string, steps ...step) step {
	task := script(t, steps...)
	if a.name == "opencode" {
		return step{"tool": "task", "args": map[string]any{"description": "look around", "prompt": task, "subagent_type": kind}}
	}
	return step{"tool": "delegate", "args": map[string]any{"instructions": task}}
}

// knowing starts an editor that knows child sessions.
func (w *world) knowing() *editor {
	e := startEditor(w.t, launch{command: w.acp(), env: w.ganderEnv(nil), uid: w.uid, gid: w.gid, dir: w.dir, unstable: true})
	e.initializeWith(shows)
	return e
}

// childSaid returns the words of the child sessions of a turn, and how they ended.
func (t *turn) childSaid() (said string, ended []string) {
	for _, c := range t.children {
		if c.SessionUpdate == "agent_message_chunk" {
			said += c.text()
		}
	}
	for _, u := range t.updates {
		if u.SessionUpdate == "subagent_update" && u.State.State == "idle" {
			ended = append(ended, u.State.StopReason)
		}
	}
	return said, ended
}

// TestChildrenOfAgents tests that sub-agents of goose and opencode are child sessions for an
// editor that knows them, also when the thread is loaded, and one tool call each for another.
func TestChildrenOfAgents(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		project := w.mkdir("project")
		work := func() string {
			return script(t, w.cell.child(t, "general", w.shell("echo made > made.txt"), says("I am done.")), says("All is done."))
		}
		e := w.knowing()
		s := e.session(project)
		turn := s.prompt(work()).done("end_turn")
		said, ended := turn.childSaid()
		if said != "I am done." || !slices.Equal(ended, []string{"end_turn"}) || turn.text() != "All is done." {
			t.Errorf("the child said %q and ended as %q; its parent said %q", said, ended, turn.text())
		}
		messages := 0
		for _, u := range turn.updates {
			if u.SessionUpdate == "session_message" {
				messages++
			}
			if u.SessionUpdate == "tool_call" && u.Kind != "edit" { // which shows what has changed
				t.Errorf("a tool call stands for the child, too: %s", u.raw)
			}
		}
		if messages != 2 {
			t.Errorf("%d messages between the two sessions, want task and answer", messages)
		}
		if got := w.read(filepath.Join(project, "made.txt")); got != "made\n" {
			t.Errorf("made.txt holds %q", got)
		}
		e.end()

		e = w.knowing()
		if _, again := e.load(s.id, project); !slices.ContainsFunc(again, func(u string) bool { return strings.HasPrefix(u, "subagent_update") }) {
			t.Errorf("session/load tells of %q", again)
		}
		e.end()

		e = w.gander(nil)
		e.initialize()
		turn = e.session(project).prompt(work()).done("end_turn")
		finals := 0
		for _, u := range turn.updates {
			if u.final() && strings.Contains(u.text(), "I am done.") {
				finals++
			}
		}
		if finals != 1 || len(turn.children) > 0 {
			t.Errorf("%d tool calls have what the child did: %q", finals, turn.kinds())
		}
		e.end()
	})
}

// TestChildThatAsks tests that the question of opencode's sub-agent, which opencode loses, is put
// under the child's name, and that nothing hangs: it is allowed, rejected, left alone when the
// child or the turn is cancelled, and gander is killed while it waits.
func TestChildThatAsks(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		project := w.mkdir("project")
		asks := func(file string) string {
			return script(t, w.cell.child(t, "general-ask", w.shell("touch "+file), says("child done")), says("went on"))
		}
		e := w.knowing()
		s := e.session(project)
		if err := s.setMode(w.cell.asks); err != nil {
			t.Fatal(err)
		}
		n := 0
		ask := func(file string) (*pending, permission) {
			t.Helper()
			n++
			p := s.prompt(asks(file))
			q := e.permission(n)
			begun := p.until("the child", func(u update) bool { return u.SessionUpdate == "subagent_update" && u.State.State == "running" })
			if q.SessionID == s.id || q.SessionID != begun.SessionID || !strings.Contains(q.ToolCall.Title, "touch "+file) {
				t.Errorf("asked in session %s for %q, want that of the child %s", q.SessionID, q.ToolCall.Title, begun.SessionID)
			}
			return p, q
		}
		check := func(p *pending, stop, file string, made bool, end string) {
			t.Helper()
			turn := p.done(stop)
			if _, ended := turn.childSaid(); !slices.Equal(ended, []string{end}) {
				t.Errorf("%s: the child ended as %q, want %s", file, ended, end)
			}
			if exists(filepath.Join(project, file)) != made {
				t.Errorf("%s is made: %t", file, !made)
			}
			if stop == "end_turn" && turn.text() != "went on" {
				t.Errorf("%s: the parent said %q", file, turn.text())
			}
		}
		p, q := ask("allowed")
		if everywhere {
			time.Sleep(5 * time.Minute) // nothing gives up meanwhile
		}
		e.choose(q, "allow_once")
		check(p, "end_turn", "allowed", true, "end_turn")
		p, q = ask("rejected")
		e.choose(q, "reject_once")
		check(p, "end_turn", "rejected", false, "error")
		p, q = ask("stopped")
		e.notify("session/cancel", map[string]any{"sessionId": q.SessionID})
		e.choose(q, "cancelled") // as the protocol asks of clients
		check(p, "end_turn", "stopped", false, "cancelled")
		p, q = ask("cancelled")
		s.cancel()
		e.choose(q, "cancelled")
		check(p, "cancelled", "cancelled", false, "cancelled")
		ask("killed")
		e.dies = true
		e.do("kill", map[string]any{"signal": "SIGKILL"})
		e.exit()

		e = w.knowing()
		s, again := e.load(s.id, project)
		if last := again[len(again)-1]; last != "subagent_update" { // its announcement has a title
			t.Errorf("session/load does not end with the child that was interrupted: %q", again)
		}
		s.prompt(script(t, says("still here"))).done("end_turn")
		e.end()

		e = w.gander(nil)
		e.initialize()
		s = e.session(project)
		if err := s.setMode(w.cell.asks); err != nil {
			t.Fatal(err)
		}
		p = s.prompt(asks("named"))
		q = e.permission(1)
		if q.SessionID != s.id || !strings.HasPrefix(q.ToolCall.Title, "look around: touch named") {
			t.Errorf("asked in session %s for %q", q.SessionID, q.ToolCall.Title)
		}
		e.choose(q, "allow_once")
		if turn := p.done("end_turn"); turn.text() != "went on" || !exists(filepath.Join(project, "named")) {
			t.Errorf("the parent said %q", turn.text())
		}
		e.end()
	})
}

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func (s *session) setMode(id string) error {
	return s.request("session/set_mode", map[string]any{"sessionId": s.id, "modeId": id}, nil)
}

// setOption sets a config option and returns the complete list that comes back.
func (s *session) setOption(id, value string) ([]configOption, error) {
	var got struct{ ConfigOptions []configOption }
	err := s.request("session/set_config_option", map[string]any{"sessionId": s.id, "configId": id, "value": value}, &got)
	return got.ConfigOptions, err
}

// In a mode that asks, every command does. The answers of one session, one after the other.
func TestPermission(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		s := e.session(project)
		if err := s.setMode(w.cell.asks); err != nil {
			t.Fatalf("session/set_mode: %v", err)
		}

		p := s.prompt(script(t, w.shell("touch allowed.txt"), says("went on")))
		ask := e.permission(1)
		for _, want := range []string{"touch allowed.txt", project} {
			if !strings.Contains(ask.ToolCall.Title+ask.ToolCall.text()+string(ask.ToolCall.RawInput), want) {
				t.Errorf("the person is not shown %q: %+v", want, ask.ToolCall)
			}
		}
		if !strings.Contains(ask.ToolCall.Title, "touch allowed.txt") {
			t.Errorf("the title %q does not show the command", ask.ToolCall.Title)
		}
		if s.id != ask.SessionID {
			t.Errorf("asked for session %q, not %q", ask.SessionID, s.id)
		}
		e.choose(ask, "allow_once")
		turn := p.done("end_turn")
		if _, err := os.Stat(project + "/allowed.txt"); err != nil {
			t.Errorf("allowed, but: %v", err)
		}
		if tool, _ := turn.tool(0); tool.Status != "completed" || tool.ToolCallID != ask.ToolCall.ToolCallID {
			t.Errorf("the allowed tool call %q ends as %+v", ask.ToolCall.ToolCallID, tool)
		}

		p = s.prompt(script(t, w.shell("touch rejected.txt"), says("went on")))
		e.choose(e.permission(2), "reject_once")
		turn = p.done("end_turn")
		if _, err := os.Stat(project + "/rejected.txt"); err == nil {
			t.Error("rejected, but it was run")
		}
		if tool, _ := turn.tool(0); tool.Status != "failed" {
			t.Errorf("the rejected tool call ends as %+v", tool)
		}
		if went := strings.Contains(turn.text(), "went on"); went != w.cell.goesOn {
			t.Errorf("after a rejection the turn goes on: %v; the agent said %q", went, turn.text())
		}

		p = s.prompt(script(t, w.shell("touch declined.txt"), says("went on")))
		e.choose(e.permission(3), "cancelled")
		p.done("end_turn")
		if _, err := os.Stat(project + "/declined.txt"); err == nil {
			t.Error("the request was answered cancelled, but it was run")
		}

		p = s.prompt(script(t, w.shell("touch cancelled.txt"), says("went on")))
		ask = e.permission(4)
		s.cancel()
		e.choose(ask, "cancelled") // as the protocol asks of clients
		turn = p.done("cancelled")
		if _, err := os.Stat(project + "/cancelled.txt"); err == nil {
			t.Error("cancelled, but it was run")
		}
		if tool, ok := turn.tool(0); ok && tool.Status != "failed" {
			t.Errorf("the cancelled tool call ends as %+v", tool)
		}
	})
}

// The agent's modes are ours: switched by either of the protocol's two ways, the
// other follows, and the agent obeys.
func TestModes(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		project := w.mkdir("project")
		s := e.session(project)
		if s.opened.Modes == nil || s.opened.Modes.CurrentModeID == "" || len(s.opened.Modes.AvailableModes) < 2 {
			t.Fatalf("session/new offers the modes %+v", s.opened.Modes)
		}
		mode := option(s.opened.ConfigOptions, "mode")
		if mode == nil || mode.CurrentValue != s.opened.Modes.CurrentModeID {
			t.Fatalf("the config option of modes is %+v, the modes are %+v", mode, s.opened.Modes)
		}
		s.prompt(script(t, says("started"))).done("end_turn")

		if err := s.setMode(w.cell.strict); err != nil {
			t.Fatalf("session/set_mode: %v", err)
		}
		s.prompt(script(t, w.cell.refused(w.cell.agent, project), says("talked"))).done("end_turn")
		if _, err := os.Stat(project + "/strict.txt"); err == nil {
			t.Errorf("mode %s has not kept the agent from making a file", w.cell.strict)
		}
		all, err := s.setOption(mode.ID, w.cell.free)
		if err != nil {
			t.Fatalf("session/set_config_option: %v", err)
		}
		if got := option(all, "mode"); got == nil || got.CurrentValue != w.cell.free {
			t.Errorf("after the change the option is %+v", got)
		}
		s.prompt(script(t, w.shell("touch free.txt"), says("done"))).done("end_turn")
		if _, err := os.Stat(project + "/free.txt"); err != nil {
			t.Errorf("back in mode %s: %v", w.cell.free, err)
		}
		s.wait("both switches to be told", func() bool {
			var told []string
			for _, f := range s.rec.frames {
				if u, ok := f.update(); ok && u.SessionUpdate == "current_mode_update" {
					told = append(told, u.CurrentModeID)
				}
			}
			return len(told) > 0 && told[len(told)-1] == w.cell.free
		})
		if err := s.setMode("no such mode"); code(err) != -32602 {
			t.Errorf("an unknown mode is answered %v", err)
		}
		if _, err := s.setOption("no such option", "x"); code(err) != -32602 {
			t.Errorf("an unknown option is answered %v", err)
		}
		if _, err := s.setOption(mode.ID, "no such mode"); code(err) != -32602 {
			t.Errorf("an unknown value is answered %v", err)
		}
	})
}

// Until the first prompt, and as long as nothing was said, a person can choose
// another agent. The new one has modes of its own.
func TestAgentIsChosen(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		first := agents[0]
		if first == w.cell.agent {
			first = agents[1]
		}
		env := first.env(t)
		e := w.gander(env, "--agent", first.name)
		e.initialize()
		s := e.session(w.mkdir("project"))
		all, err := s.setOption("agent", w.cell.agent.name)
		if err != nil {
			t.Fatalf("session/set_config_option: %v", err)
		}
		if got := option(all, "agent"); got == nil || got.CurrentValue != w.cell.agent.name || len(got.Options) < len(agents) {
			t.Errorf("after the choice the option is %+v", got)
		}
		if got := option(all, "mode"); got == nil || !slices.Contains(got.values(), w.cell.strict) {
			t.Errorf("after the choice the modes are %+v", got)
		}
		s.prompt(script(t, w.shell("echo by the chosen one > made.txt"), says("done"))).done("end_turn")
		if got := w.read(w.dir + "/project/made.txt"); got != "by the chosen one\n" {
			t.Errorf("made.txt holds %q", got)
		}
		if !slices.ContainsFunc(w.below(e), func(p proc) bool { return strings.HasSuffix(p.program, "/"+w.cell.agent.name) }) {
			t.Errorf("no %s runs below gander: %v", w.cell.agent.name, w.below(e))
		}
	})
}

// option finds a config option by category, or by id.
func option(all []configOption, name string) *configOption {
	for i, o := range all {
		if o.Category == name || o.ID == name {
			return &all[i]
		}
	}
	return nil
}

// The options have one order everywhere: what a person changes most comes first.
func TestConfigOptions(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		want := []string{"model", "mode", "thought_level", "agent", "sandbox", "tools", "permissions", "access", "ports"}
		checkOrder(t, "session/new", s.opened.ConfigOptions, want, "thought_level")
		if agent := option(s.opened.ConfigOptions, "agent"); agent != nil && agent.CurrentValue != w.cell.agent.name {
			t.Errorf("the agent is %v of %v", agent.CurrentValue, agent.values())
		}
		s.prompt(script(t, says("started"))).done("end_turn")
		var last []configOption
		s.wait("the agent's own options", func() bool {
			for _, f := range s.rec.frames {
				if u, ok := f.update(); ok && u.SessionUpdate == "config_option_update" {
					last = u.ConfigOptions
				}
			}
			return true
		})
		if last != nil {
			checkOrder(t, "config_option_update", last, want, "thought_level")
		}
		all, err := s.setOption(option(s.opened.ConfigOptions, "mode").ID, w.cell.asks)
		if err != nil {
			t.Fatal(err)
		}
		checkOrder(t, "session/set_config_option", all, want, "thought_level")
		for _, o := range all {
			if o.Type == "select" && len(o.Options) == 0 {
				t.Errorf("option %s has no values", o.ID)
			}
		}
	})
}

// checkOrder compares the categories (ids, where there is none) with want; those
// in optional may be absent.
func checkOrder(t *testing.T, where string, all []configOption, want []string, optional ...string) {
	t.Helper()
	var got []string
	for _, o := range all {
		name := o.ID
		if o.Category != "" && !strings.HasPrefix(o.Category, "_") {
			name = o.Category
		}
		got = append(got, name)
	}
	without := strings.Join(want, " ")
	for _, o := range optional {
		without = strings.Replace(without, o+" ", "", 1)
	}
	if text := strings.Join(got, " "); text != strings.Join(want, " ") && text != without {
		t.Errorf("%s has the options %q, want %q", where, got, want)
	}
}

// An answer that holds for good is gander's to keep: it counts in a later session of
// the project, in another process, for exactly what was asked. The agents themselves
// remember nothing of it, so that goose's list for all projects stays empty.
func TestRememberedPermission(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		project, other := w.mkdir("project"), w.mkdir("other")
		again := func(dir string) (*editor, *session) {
			e := w.gander(nil)
			e.initialize()
			s := e.session(dir)
			if err := s.setMode(w.cell.asks); err != nil {
				t.Fatalf("session/set_mode: %v", err)
			}
			return e, s
		}
		e, s := again(project)
		p := s.prompt(script(t, w.shell("touch made.txt"), says("went on")))
		e.choose(e.permission(1), "allow_always")
		p.done("end_turn")
		p = s.prompt(script(t, w.shell("touch made.txt && touch more.txt"), says("went on")))
		e.choose(e.permission(2), "reject_once")
		p.done("end_turn")
		for _, list := range gooseLists(t, w.ganderHome()) {
			t.Errorf("goose remembers by itself: %s", list)
		}
		e.end()
		if err := os.Remove(project + "/made.txt"); err != nil {
			t.Fatal(err)
		}

		e, s = again(project)
		s.prompt(script(t, w.shell("touch made.txt"), says("went on"))).done("end_turn")
		if _, err := os.Stat(project + "/made.txt"); err != nil {
			t.Errorf("what was allowed for good was not done: %v", err)
		}
		e.end()
		e, s = again(other)
		p = s.prompt(script(t, w.shell("touch made.txt"), says("went on")))
		e.choose(e.permission(1), "reject_once")
		p.done("end_turn")
		if _, err := os.Stat(other + "/made.txt"); err == nil {
			t.Error("what was allowed in one project was done in another")
		}
		if _, err := os.Stat(project + "/more.txt"); err == nil {
			t.Error("more was done than allowed")
		}
	})
}

// gooseLists are the contents of the files in which goose keeps what is always
// allowed, that name something.
func gooseLists(t *testing.T, dir string) []string {
	t.Helper()
	var lists []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "permission.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "- ") {
			lists = append(lists, path+": "+string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lists
}

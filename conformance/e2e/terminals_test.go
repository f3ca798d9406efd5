package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// terminalMeta is what an update says of a display-only terminal.
type terminalMeta struct {
	Info *struct {
		TerminalID string `json:"terminal_id"`
		CWD        string `json:"cwd"`
	} `json:"terminal_info"`
	Output *struct {
		TerminalID string `json:"terminal_id"`
		Data       string `json:"data"`
	} `json:"terminal_output"`
	Exit *struct {
		TerminalID string  `json:"terminal_id"`
		ExitCode   *int    `json:"exit_code"`
		Signal     *string `json:"signal"`
	} `json:"terminal_exit"`
}

func terminalOf(t *testing.T, u update) terminalMeta {
	t.Helper()
	var got struct {
		Meta terminalMeta `json:"_meta"`
	}
	if err := json.Unmarshal(u.raw, &got); err != nil {
		t.Fatal(err)
	}
	return got.Meta
}

// A client that shows terminals (Zed) sees a command's output in one while it runs, each
// byte once, and its exit code; nothing is run by the client. Later the thread has it as
// text, because the terminal is gone.
func TestTerminals(t *testing.T) {
	inCells(t, testTerminals)
}

func testTerminals(t *testing.T, w *world) {
	e := w.gander(nil)
	if err := e.request("initialize", map[string]any{
		"protocolVersion":    1,
		"clientCapabilities": map[string]any{"terminal": true, "_meta": map[string]any{"terminal_output": true}},
	}, nil); err != nil {
		t.Fatal(err)
	}
	project := w.mkdir("project")
	s := e.session(project)
	p := s.prompt(script(t, w.shell("echo one; echo two; touch begun; while [ ! -e go ]; do sleep 0.05; done; echo three; exit 3"), says("done")))
	p.until("output while the command runs", func(u update) bool {
		m := terminalOf(t, u)
		return m.Output != nil && strings.Contains(m.Output.Data, "two") && u.Status != "completed" && u.Status != "failed"
	})
	w.write(project, "go", "")
	var shown strings.Builder
	var ends int
	turn := p.done("end_turn")
	for _, u := range turn.updates {
		if u.ToolCallID == "" || strings.HasPrefix(u.ToolCallID, "gander-changes-") {
			continue
		}
		m := terminalOf(t, u)
		switch {
		case u.SessionUpdate == "tool_call":
			if m.Info == nil || m.Info.TerminalID == "" || m.Info.CWD != project || !strings.Contains(string(u.Content), `"terminal"`) || !strings.Contains(string(u.Content), m.Info.TerminalID) {
				t.Errorf("the call does not announce a terminal: %s", u.raw)
			}
		case m.Info != nil:
			t.Errorf("a terminal is announced by an update: %s", u.raw)
		case strings.Contains(string(u.Content), `"text"`):
			t.Errorf("output is shown beside the terminal: %s", u.raw)
		}
		if m.Output != nil {
			shown.WriteString(m.Output.Data)
		}
		if m.Exit != nil {
			if ends++; m.Exit.ExitCode == nil || *m.Exit.ExitCode != 3 || m.Exit.Signal != nil {
				t.Errorf("the terminal ends with %s", u.raw)
			}
		}
	}
	if got := shown.String(); strings.Count(got, "one\n") != 1 || strings.Count(got, "two\n") != 1 || strings.Count(got, "three") != 1 || ends != 1 {
		t.Errorf("the terminal shows %q and ends %d times", got, ends)
	}
	e.end()

	e = w.gander(nil)
	e.initialize()
	_, thread := e.load(s.id, project)
	if all := strings.Join(thread, "\n"); !strings.Contains(all, "one\ntwo\nthree") {
		t.Errorf("the thread shows %q", thread)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.rec.frames {
		if strings.Contains(f.line, "terminal_") || strings.Contains(f.line, `"terminalId"`) {
			t.Errorf("a terminal that is gone is named: %s", f.line)
		}
	}
}

package e2e

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// The bare goose under the same harness: when this fails, the harness, the model
// or goose is to blame, not gander.
func TestGooseAlone(t *testing.T) {
	w := newWorld(t, home, 0)
	e := w.goose(nil)
	e.initialize()
	project := w.mkdir("project")
	s := e.session(project)
	turn := s.prompt(script(t, step{
		"text": "Let me see.", "tool": "shell", "args": map[string]any{"command": "echo made > made.txt; echo out"},
	}, says("all done"))).done("end_turn")
	if got := w.read(project + "/made.txt"); got != "made\n" {
		t.Errorf("made.txt holds %q", got)
	}
	inOrder(t, turn, "agent_message_chunk", "tool_call", "tool_call_update completed", "agent_message_chunk")
	if !strings.HasSuffix(turn.text(), "all done") {
		t.Errorf("the agent said %q", turn.text())
	}
	if turn.answer.Usage == nil || turn.answer.Usage.TotalTokens == 0 {
		t.Errorf("no usage in the answer: %+v", turn.answer)
	}
}

// The other half of every proof about gander: without it the harness sees
// processes survive, the key inside, and the network open.
func TestGooseAloneKeepsNoPromise(t *testing.T) {
	w := newWorld(t, home, 0)
	e := w.goose(nil)
	e.expects = "no final status"
	e.initialize()
	s := e.session(w.mkdir("project"))
	ear := tcpTrap(t, "127.0.0.1")
	knock := knocks(t, map[string][]*trap{"tcp": {ear}})
	m := mark(t, 0)
	p := s.prompt(script(t, w.shell(searchInside(canary)), w.shell(knock),
		w.markedCommand(m, "(setsid sleep 600 </dev/null >/dev/null 2>&1 &); sleep 600"), says("not reached")))
	eventually(t, "the command to run", func() bool { return len(marked(t, m)) > 1 })

	// A process has no environment for the moment of its exec, hence the patience.
	eventually(t, "a child of goose with the key in its environment: the search cannot find it", func() bool {
		return slices.ContainsFunc(descendants(t, e.pid()), func(d proc) bool { return bytes.Contains(d.environ, []byte(canary)) })
	})
	s.cancel()
	turn := p.end()
	if tool, _ := turn.tool(0); !strings.Contains(tool.text(), "FOUND") {
		t.Errorf("the search inside finds nothing: %q", tool.text())
	}
	if tool, _ := turn.tool(1); !strings.Contains(tool.text(), "CONNECTED") || ear.count() == 0 {
		t.Errorf("the knock is not heard (%d): %q", ear.count(), tool.text())
	}
	left := marked(t, m)
	if len(left) == 0 {
		t.Error("no process survives a cancel: the survey cannot see them")
	}
	for _, p := range left {
		p.kill(t)
	}
}

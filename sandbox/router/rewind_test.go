package router

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// /rewind lists the turns, puts conversation and files back to before one, and takes that back by
// the same command; the agent goes on with its own session where that has not gone on.
func TestRewind(t *testing.T) {
	p := newProject(t, func(r *rig) { r.agent.resumes = true })
	turn := 0
	p.do = func(c *fakeConv) {
		turn++
		p.write(t, "a.txt", fmt.Sprintf("turn %d\n", turn))
		c.say(fmt.Sprintf("answer %d", turn))
	}
	for i := range 3 {
		p.wantStop(t, p.id, fmt.Sprintf("question %d", i+1), acp.StopEndTurn)
	}
	own := p.agent.conv().ID()
	says := func(prompt string, parts ...string) {
		t.Helper()
		said := string(marshal(p.turnUpdates(t, prompt)))
		for _, part := range parts {
			if !strings.Contains(said, part) {
				t.Errorf("%s says %s, without %q", prompt, said, part)
			}
		}
	}
	holds := func(want string) {
		t.Helper()
		if got := p.read(t, "a.txt"); got != want {
			t.Errorf("the file holds %q, want %q", got, want)
		}
	}
	says("/rewind", "- **1** (", ") question 1 · 1 file", "- **3** (", "`/rewind 3` puts")
	says("/rewind no", "is not known")
	says("/rewind 9", "there is no turn 9")
	p.write(t, "a.txt", "mine\n")
	says("/rewind 2", "nothing was put back: a.txt changed after the turn", "/rewind 2 conversation")
	p.write(t, "a.txt", "turn 3\n")
	says("/rewind 2", "as it was before turn 2: 2 turns are taken back", "`/rewind 4` takes this back", "put a.txt back")
	holds("turn 1\n")
	got := p.told(t, p.id)
	if !strings.Contains(got, "question 1") || strings.Contains(got, "question 2") || strings.Contains(got, "answer 3") {
		t.Errorf("behind the rewind the agent is told %q", got)
	}
	if c := p.agent.conv(); c.ID() == own || c.params.ResumeID != "" {
		t.Errorf("the agent goes on with %s", c.ID())
	}
	says("/rewind", "- **1** (", "- **4** (", ") /rewind 2", "- **5** (", ") next")
	says("/rewind 3", "turn 3 was taken back already")
	says("/rewind 4", "1 turn is taken back, 2 turns are there again")
	holds("turn 3\n")
	if got := p.told(t, p.id); got != "next" || p.agent.conv().ID() != own {
		t.Errorf("where the rewind was taken back, %s is told %q", p.agent.conv().ID(), got)
	}
	says("/rewind 1 conversation", "The files stay as they are")
	if got := p.told(t, p.id); got != "next" {
		t.Errorf("behind a rewind to the beginning the agent is told %q", got)
	}
	// A client that loads the thread is shown what counts.
	before := len(p.updates(p.id))
	if _, err := p.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: p.id, CWD: p.dir, MCPServers: []json.RawMessage{}}); err != nil {
		t.Fatal(err)
	}
	shown := string(marshal(p.updates(p.id)[before:]))
	if strings.Contains(shown, "question") || !strings.Contains(shown, "/rewind 1 conversation") || !strings.Contains(shown, `"next"`) {
		t.Errorf("the loaded thread is %s", shown)
	}
}

package router

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

func TestCommandOf(t *testing.T) {
	text := func(s string) acp.ContentBlock { return acp.TextBlock(s) }
	link := acp.ContentBlock(`{"type":"resource_link","uri":"file:///status","name":"/status"}`)
	for _, tt := range []struct {
		name, command, args string
		prompt              []acp.ContentBlock
	}{
		{"a command", "status", "", []acp.ContentBlock{text("/status")}},
		{"with an argument", "agent", "goose", []acp.ContentBlock{text("/agent   goose \n")}},
		{"a line break after the name", "model", "x", []acp.ContentBlock{text("/model\nx")}},
		{"behind an attachment", "status", "", []acp.ContentBlock{link, text("/status")}},
		{"not at the start", "", "", []acp.ContentBlock{text(" /status")}},
		{"in the second text", "", "", []acp.ContentBlock{text("look:"), text("/status")}},
		{"the beginning of a path", "", "", []acp.ContentBlock{text("/status/page is empty")}},
		{"another name", "", "", []acp.ContentBlock{text("/statusx")}},
		{"the agent's", "", "", []acp.ContentBlock{text("/skills")}},
		{"nothing", "", "", []acp.ContentBlock{text("/")}},
		{"no text", "", "", []acp.ContentBlock{link}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, args := commandOf(tt.prompt)
			name := ""
			if c != nil {
				name = c.name
			}
			if name != tt.command || args != tt.args {
				t.Errorf("got %q with %q, want %q with %q", name, args, tt.command, tt.args)
			}
		})
	}
}

// offered are the names of the commands that the client was told last.
func (r *rig) offered(id acp.SessionID) []string {
	var names []string
	for _, raw := range r.editor.Updates(id) {
		var u struct {
			Kind     string `json:"sessionUpdate"`
			Commands []struct{ Name, Description string }
		}
		if acp.UpdateKind(raw) != "available_commands_update" || json.Unmarshal(raw, &struct {
			Commands any `json:"availableCommands"`
		}{&u.Commands}) != nil {
			continue
		}
		names = nil
		for _, c := range u.Commands {
			names = append(names, c.Name)
		}
	}
	return names
}

// Both lists are one, and gander's name wins.
func TestCommandsAreAnnounced(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"skills","description":"theirs","_meta":{"x":1}},{"name":"status","description":"theirs"}]}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	r.editor.Wait(t, "gander's own commands", func() bool { return slices.Contains(r.offered(s.SessionID), "status") })
	if got := r.offered(s.SessionID); slices.Contains(got, "skills") {
		t.Errorf("before the agent spoke there are %q", got)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	got := r.offered(s.SessionID)
	if got[len(got)-1] != "skills" || !slices.Contains(got, "agent") || count(got, "status") != 1 {
		t.Errorf("offered are %q", got)
	}
	if !about(r.editor.Updates(s.SessionID), `"_meta":{"x":1}`) {
		t.Errorf("the agent's command has lost its _meta: %s", r.editor.Updates(s.SessionID))
	}
}

func count(all []string, name string) int {
	n := 0
	for _, s := range all {
		if s == name {
			n++
		}
	}
	return n
}

// A command is answered without the agent, and neither it nor the answer becomes
// part of the conversation.
func TestCommandsAreGandersOwn(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	r.wantStop(t, s.SessionID, "/status", acp.StopEndTurn)
	if said := r.editor.Text(s.SessionID, acp.AgentMessageChunk); !strings.Contains(said, "- agent: duck, ") || !strings.Contains(said, "- sandbox: box") {
		t.Errorf("/status says %q", said)
	}
	r.wantStop(t, s.SessionID, "/agent swan", acp.StopEndTurn) // before the first prompt
	r.wantStop(t, s.SessionID, "/agent goose", acp.StopEndTurn)
	if said := r.editor.Text(s.SessionID, acp.AgentMessageChunk); !strings.Contains(said, "Agent: **swan**") || !strings.Contains(said, `/agent: "goose" is not a value of agent`) {
		t.Errorf("/agent says %q", said)
	}
	r.wantStop(t, s.SessionID, "/unknown", acp.StopEndTurn)
	r.wantStop(t, s.SessionID, "hello", acp.StopEndTurn)
	for _, e := range r.journal.all() {
		if strings.HasPrefix(e, "prompt ") && !strings.HasPrefix(e, "prompt /unknown") && !strings.HasPrefix(e, "prompt hello") {
			t.Errorf("the agent got %q", e)
		}
	}
	r.wantStop(t, s.SessionID, "/status", acp.StopEndTurn) // of a sandbox that runs
	if said := r.editor.Text(s.SessionID, acp.AgentMessageChunk); !strings.Contains(said, "- limit: memory: 1 GiB, by a fake\n") {
		t.Errorf("/status says %q", said)
	}
	if r.journal.count("prompt /unknown in mode ") != 1 {
		t.Errorf("an unknown command did not reach the agent: %q", r.journal.all())
	}
	r.closeSession(t, s.SessionID)
	h, err := r.store.History(t.Context(), s.SessionID, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Turns) != 2 || strings.Contains(h.String(), "/agent") || strings.Contains(h.String(), "sandbox: box") {
		t.Errorf("the conversation is %q", h.String())
	}
	own := 0
	for rec, err := range r.store.Entries(t.Context(), s.SessionID) {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := rec.Body.(sessions.TurnEvent); ok && e.Command != "" {
			own++
		}
	}
	if own != 4 {
		t.Errorf("%d turns are marked as gander's own, want 4", own)
	}
}

func (r *rig) closeSession(t *testing.T, id acp.SessionID) {
	t.Helper()
	if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: id}); err != nil {
		t.Fatal(err)
	}
}

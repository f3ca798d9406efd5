package router

import (
	"encoding/json"
	"testing"

	"gander.dev/gander/acp"
)

// withSwitch gives the agent a switch, which is off.
func withSwitch(r *rig) {
	r.agent.state.ConfigOptions = append(r.agent.state.ConfigOptions, acp.ConfigOption{
		ID: "permissions", Name: "Fast", Type: "boolean", CurrentValue: json.RawMessage(`false`),
		Meta: json.RawMessage(`{"gander.dev":1,"theirs":2}`),
	})
}

// TestSwitchesOfAgents tests that an agent's boolean option, which has the id of one of gander's,
// is shown and set: as such to a client that knows them, else as a choice.
func TestSwitchesOfAgents(t *testing.T) {
	knows := acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{ConfigOptions: &acp.ConfigOptionsCapability{Boolean: offer}}}
	for _, tt := range []struct {
		name     string
		has      acp.ClientCapabilities
		kind     string
		off      string
		on, sent string
	}{
		{"known", knows, "boolean", `false`, `true`, `true`},
		{"as a choice", acp.ClientCapabilities{}, "select", `"off"`, `"on"`, `"on"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRigFor(t, tt.has, withSwitch)
			id := r.open(t).SessionID
			r.wantStop(t, id, "x", acp.StopEndTurn)
			if got := r.agent.conv().params.Capabilities.Session.ConfigOptions; got == nil || got.Boolean == nil {
				t.Error("the agent is offered no boolean options")
			}
			set := func(value string) *acp.ConfigOption {
				t.Helper()
				resp, err := r.editor.Conn.SetConfigOption(t.Context(), &acp.SetConfigOptionRequest{SessionID: id, ConfigID: "agent.permissions", Type: tt.kind, Value: json.RawMessage(value)})
				if err != nil {
					t.Fatal(err)
				}
				return optionByID(resp.ConfigOptions, "agent.permissions")
			}
			if o := set(tt.sent); o == nil || o.Type != tt.kind || string(o.CurrentValue) != tt.on {
				t.Errorf("switched on, it is %+v", o)
			} else if tt.kind == "boolean" && string(o.Meta) != `{"theirs":2}` {
				t.Errorf("its _meta is %s", o.Meta)
			}
			r.journal.wait(t, "set permissions true", 1)
			if o := set(tt.off); o == nil || string(o.CurrentValue) != tt.off {
				t.Errorf("switched off, it is %+v", o)
			}
			r.journal.wait(t, "set permissions false", 1)
			if _, err := r.editor.Conn.SetConfigOption(t.Context(), &acp.SetConfigOptionRequest{SessionID: id, ConfigID: "agent.permissions", Value: json.RawMessage(`"perhaps"`)}); err == nil {
				t.Error("any value is taken")
			}
		})
	}
}

// TestSwitchesAreKept tests that a switch that was chosen before the agent runs is given to it,
// and that a thread that is loaded has it again.
func TestSwitchesAreKept(t *testing.T) {
	r := newRigFor(t, acp.ClientCapabilities{}, withSwitch)
	cwd := t.TempDir()
	id := r.editor.NewSession(t, cwd).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	if _, err := r.editor.Conn.SetConfigOption(t.Context(), &acp.SetConfigOptionRequest{SessionID: id, ConfigID: "agent.permissions", Value: json.RawMessage(`"on"`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: id}); err != nil {
		t.Fatal(err)
	}
	resp, err := r.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: id, CWD: cwd})
	if err != nil {
		t.Fatal(err)
	}
	if o := optionByID(resp.ConfigOptions, "agent.permissions"); o == nil || string(o.CurrentValue) != `"on"` {
		t.Errorf("loaded, it is %+v", o)
	}
	r.wantStop(t, id, "y", acp.StopEndTurn)
	r.journal.wait(t, "set permissions true", 2)
}

package router

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
)

var errNoKey = errors.New("no key is configured; run gander setup")

func withSetup(r *rig) {
	r.opts.Setup = Setup{
		Args: []string{"--setup"}, Command: []string{"/opt/gander", "setup"},
		Mends: func(err error) bool { return errors.Is(err, errNoKey) },
	}
}

// Every client is offered a way that it can go, and at least one.
func TestAuthMethods(t *testing.T) {
	tests := []struct {
		name         string
		capabilities string
		want         []string
	}{
		{"nothing offered", `{}`, []string{"configuration"}},
		{"terminals", `{"auth": {"terminal": true}}`, []string{"configuration", "setup terminal [--setup]"}},
		{"Zed's older form", `{"_meta": {"terminal-auth": true}}`, []string{"configuration", "setup  /opt/gander [setup]"}},
		{"both", `{"auth": {"terminal": true}, "_meta": {"terminal-auth": true}}`, []string{"configuration", "setup terminal [--setup]"}},
		{"nonsense", `{"_meta": {"terminal-auth": "yes"}}`, []string{"configuration"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c acp.ClientCapabilities
			if err := json.Unmarshal([]byte(tt.capabilities), &c); err != nil {
				t.Fatal(err)
			}
			r := newRig(t, withSetup)
			resp, err := r.router.Initialize(t.Context(), &acp.InitializeRequest{ClientCapabilities: c})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range resp.AuthMethods {
				got = append(got, describe(t, m))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("methods %q, want %q", got, tt.want)
			}
		})
	}
}

// Logging out is offered where there is something to forget. Agents end, and the next
// prompt makes the client offer the ways to sign in.
func TestLogout(t *testing.T) {
	r := newRig(t, withSetup)
	if _, err := r.editor.Conn.Logout(t.Context(), &acp.LogoutRequest{}); errorCode(err) != acp.CodeMethodNotFound {
		t.Errorf("without anything to forget: %v", err)
	}
	if resp, err := r.router.Initialize(t.Context(), &acp.InitializeRequest{}); err != nil || string(resp.AgentCapabilities.Auth) != `{"status":{}}` {
		t.Errorf("without anything to forget there is %s, %v", resp.AgentCapabilities.Auth, err)
	}
	var key atomic.Bool
	key.Store(true)
	r = newRig(t, func(r *rig) {
		withSetup(r)
		r.opts.Setup.Logout = func() error { key.Store(false); return nil }
		open := r.terms.openModel
		r.terms.openModel = func(way confine.Way) (confine.Model, error) {
			if !key.Load() {
				return nil, errNoKey
			}
			return open(way)
		}
	})
	if resp, err := r.router.Initialize(t.Context(), &acp.InitializeRequest{}); err != nil || string(resp.AgentCapabilities.Auth) != `{"status":{},"logout":{}}` {
		t.Errorf("there is %s, %v", resp.AgentCapabilities.Auth, err)
	}
	id := r.open(t).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	if _, err := r.editor.Conn.Logout(t.Context(), &acp.LogoutRequest{}); err != nil {
		t.Fatal(err)
	}
	r.journal.wait(t, "close sandbox", 1)
	if got := r.ask(t, id, "y"); errorCode(got.err) != acp.CodeAuthRequired {
		t.Errorf("after that a prompt is answered with %+v", got)
	}
	key.Store(true)
	r.wantStop(t, id, "z", acp.StopEndTurn)
}

func describe(t *testing.T, m acp.AuthMethod) string {
	t.Helper()
	if m.ID == "" || m.Name == "" {
		t.Errorf("a method without id or name: %+v", m)
	}
	out := m.ID
	if m.Type != "" {
		out += " " + m.Type + " [" + strings.Join(m.Args, " ") + "]"
	}
	var meta struct {
		Terminal struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"terminal-auth"`
	}
	if len(m.Meta) > 0 {
		if err := json.Unmarshal(m.Meta, &meta); err != nil {
			t.Error(err)
		}
		out += "  " + meta.Terminal.Command + " [" + strings.Join(meta.Terminal.Args, " ") + "]"
	}
	return out
}

// What setting up would mend asks for it; what it would not mend does not.
func TestSessionsAskForSetup(t *testing.T) {
	r := newRig(t, withSetup)
	r.agent.check = errNoKey
	_, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), MCPServers: []json.RawMessage{}})
	if errorCode(err) != acp.CodeAuthRequired || !strings.Contains(err.Error(), "run gander setup") {
		t.Errorf("without a key: %v", err)
	}
	_, err = r.editor.Conn.Authenticate(t.Context(), &acp.AuthenticateRequest{MethodID: "configuration"})
	if errorCode(err) != acp.CodeAuthRequired {
		t.Errorf("authenticate without a key: %v", err)
	}
	r.agent.check = nil
	if _, err := r.editor.Conn.Authenticate(t.Context(), &acp.AuthenticateRequest{MethodID: "configuration"}); err != nil {
		t.Errorf("authenticate with a key: %v", err)
	}
	r.agent.check = errors.New("the disk is full")
	_, err = r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), MCPServers: []json.RawMessage{}})
	if errorCode(err) != acp.CodeInternalError {
		t.Errorf("what setup does not mend: %v", err)
	}
}

// An older JetBrains IDE chooses the model by a method of its own.
func TestSetSessionModel(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	call := func(model string) error {
		_, err := r.router.SetSessionModel(t.Context(), &acp.SetSessionModelRequest{SessionID: s.SessionID, ModelID: model})
		return err
	}
	if err := call("large"); err != nil {
		t.Fatal(err)
	}
	r.editor.Wait(t, "the options with the model", func() bool {
		return slices.Contains(r.editor.Kinds(s.SessionID), "config_option_update")
	})
	if err := call("huge"); errorCode(err) != acp.CodeInvalidParams || !strings.Contains(err.Error(), "huge") {
		t.Errorf("a model that nobody has: %v", err)
	}
	_, err := r.router.SetSessionModel(t.Context(), &acp.SetSessionModelRequest{SessionID: "no", ModelID: "large"})
	if errorCode(err) != acp.CodeResourceNotFound {
		t.Errorf("a session that nobody has: %v", err)
	}
}

package router

import (
	"encoding/json"
	"slices"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// sandboxIn is what a _meta says of the sandbox; nil when that is nothing.
func sandboxIn(t *testing.T, meta json.RawMessage) map[string]any {
	t.Helper()
	var m map[string]struct{ Sandbox map[string]any }
	if len(meta) == 0 {
		return nil
	}
	if err := json.Unmarshal(meta, &m); err != nil {
		t.Fatalf("%s: %v", meta, err)
	}
	return m["gander.dev"].Sandbox
}

// toldOfSandbox is what the client was told last of a session's sandbox in an update.
func (r *rig) toldOfSandbox(t *testing.T, id acp.SessionID) (last map[string]any) {
	t.Helper()
	for _, raw := range r.editor.Updates(id) {
		var u struct {
			Kind  string          `json:"sessionUpdate"`
			Title json.RawMessage `json:"title"`
			Meta  json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal(raw, &u); err != nil {
			t.Fatal(err)
		}
		if u.Kind != "session_info_update" {
			continue
		}
		if in := sandboxIn(t, u.Meta); in != nil {
			if last = in; u.Title != nil {
				t.Errorf("the title comes with it: %s", raw)
			}
		}
	}
	return last
}

// A client can read what a session's sandbox is: which driver when it opens the session,
// and what holds in it as soon as it is made.
func TestSandboxIsInMeta(t *testing.T) {
	kept := sandbox.Enforcement{Closed: sandbox.ByKernel, Protected: sandbox.ByName}
	r := newRig(t, func(r *rig) {
		r.driver.isolated, r.driver.kept, r.driver.weaker = true, kept, []string{"closed files are open"}
	})
	cwd := t.TempDir()
	opened := r.editor.NewSession(t, cwd)
	if got := sandboxIn(t, opened.Meta); got["driver"] != r.driver.name {
		t.Errorf("session/new says %v in %s", got, opened.Meta)
	}
	r.editor.Wait(t, "what the sandbox is", func() bool { return r.toldOfSandbox(t, opened.SessionID) != nil })
	r.wantSandbox(t, r.toldOfSandbox(t, opened.SessionID))

	resp, err := r.editor.Conn.ForkSession(t.Context(), &acp.ForkSessionRequest{SessionID: opened.SessionID, CWD: cwd})
	if err != nil {
		t.Fatal(err)
	}
	if got := sandboxIn(t, resp.Meta); got["driver"] != r.driver.name {
		t.Errorf("session/fork says %v", got)
	}
	r.router.Close()
	second := r.again(t, acp.ClientCapabilities{}, func(*rig) {})
	loaded, err := second.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: opened.SessionID, CWD: cwd, MCPServers: []json.RawMessage{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := sandboxIn(t, loaded.Meta); got["driver"] != second.driver.name || got["isolated"] != nil {
		t.Errorf("session/load says %v of a sandbox that is not there yet", got)
	}
	resumed, err := second.editor.Conn.ResumeSession(t.Context(), &acp.ResumeSessionRequest{SessionID: opened.SessionID, CWD: cwd})
	if err != nil {
		t.Fatal(err)
	}
	if got := sandboxIn(t, resumed.Meta); got["driver"] != second.driver.name {
		t.Errorf("session/resume says %v", got)
	}
}

// wantSandbox compares what is said of a sandbox with what it is.
func (r *rig) wantSandbox(t *testing.T, got map[string]any) {
	t.Helper()
	enforcement, _ := got["enforcement"].(map[string]any)
	weaker, _ := got["weaker"].([]any)
	if got["driver"] != r.driver.name || got["isolated"] != true || got["isolation"] != "by a fake" ||
		enforcement["closed"] != "kernel" || enforcement["protected"] != "name" || !slices.Equal(weaker, []any{"closed files are open"}) {
		t.Errorf("of the sandbox is said %v", got)
	}
}

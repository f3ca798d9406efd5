package router

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// spareRig makes one sandbox ahead, soon.
func spareRig(t *testing.T, adjust func(*rig)) *rig {
	t.Helper()
	return newRig(t, func(r *rig) {
		r.opts.Spares, r.opts.SpareAfter = 1, time.Millisecond
		r.terms.rules = &sandbox.Rules{Own: "/own"}
		if adjust != nil {
			adjust(r)
		}
	})
}

// ahead waits until a spare is there and returns it.
func (r *rig) ahead(t *testing.T) *spare {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		r.router.spares.mu.Lock()
		waiting := r.router.spares.waiting
		r.router.spares.mu.Unlock()
		if len(waiting) > 0 {
			return waiting[0]
		}
	}
	t.Fatal("no sandbox was made ahead")
	return nil
}

func (r *rig) openIn(t *testing.T, cwd string, dirs ...string) *session {
	t.Helper()
	resp, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: cwd, AdditionalDirectories: dirs})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.router.session(resp.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ready waits for a session's backend.
func (r *rig) ready(t *testing.T, s *session) *backend {
	t.Helper()
	b := s.start()
	select {
	case <-b.ready:
	case <-time.After(patience):
		t.Fatal("the backend does not become ready")
	}
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b
}

func TestSpareIsUsed(t *testing.T) {
	r := spareRig(t, nil)
	cwd := t.TempDir()
	first := r.openIn(t, cwd)
	r.ready(t, first)
	sp := r.ahead(t)
	made := sp.sb.(*fakeSandbox)
	if _, err := made.spec.Doors[0].Dial(t.Context()); err != errUnused {
		t.Errorf("a door of a sandbox that nobody uses: %v", err)
	}
	made.spec.Rules.Denied(sandbox.Denial{Path: "x"}) // nobody hears it

	second := r.openIn(t, cwd)
	b := r.ready(t, second)
	if second.id != sp.id || b.sb != sandbox.Sandbox(made) {
		t.Errorf("session %s has the sandbox %s, not the one made ahead for %s", second.id, b.sb.Info().ID, sp.id)
	}
	if made.spec.ID != second.sandboxID(r.agent) || made.spec.Labels["session"] != string(second.id) {
		t.Errorf("the sandbox is called %q, labels %v", made.spec.ID, made.spec.Labels)
	}
	if _, err := made.spec.Doors[0].Dial(t.Context()); err == nil || err.Error() != "nobody there" {
		t.Errorf("its door does not lead to the session's model: %v", err)
	}
	made.spec.Rules.Denied(sandbox.Denial{Path: filepath.Join(cwd, "secret"), Operation: "open"})
	heard := func() bool {
		second.mu.Lock()
		defer second.mu.Unlock()
		return second.told["secret is closed by .gooseignore: duck or a command of it was refused access (open)."]
	}
	for deadline := time.Now().Add(patience); !heard(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the session does not hear what was denied")
		}
	}
	if made.spec.Home != filepath.Join(second.sandboxDir(r.agent), homeDir) {
		t.Errorf("its home is %s", made.spec.Home)
	}
	if third := r.ahead(t); third.id == sp.id {
		t.Error("the same spare waits again")
	}
}

func TestSpareIsOfNoUse(t *testing.T) {
	for name, tt := range map[string]struct {
		dirs   bool
		before func(*testing.T, *rig, *spare)
	}{
		"more directories": {dirs: true, before: func(*testing.T, *rig, *spare) {}},
		"it has ended":     {before: func(t *testing.T, _ *rig, sp *spare) { _ = sp.sb.Close() }},
		"other mounts": {before: func(_ *testing.T, _ *rig, sp *spare) {
			sp.spec.Mounts = append(sp.spec.Mounts, sandbox.Mount{Path: "/elsewhere"})
		}},
		"other rules": {before: func(_ *testing.T, r *rig, _ *spare) { r.terms.rules = &sandbox.Rules{Own: "/other"} }},
	} {
		t.Run(name, func(t *testing.T) {
			r := spareRig(t, nil)
			cwd := t.TempDir()
			r.ready(t, r.openIn(t, cwd))
			sp := r.ahead(t)
			tt.before(t, r, sp)
			var dirs []string
			if tt.dirs {
				dirs = []string{t.TempDir()}
			}
			s := r.openIn(t, cwd, dirs...)
			if b := r.ready(t, s); b.sb == sp.sb {
				t.Error("it was used")
			}
			if tt.dirs {
				return // it goes on waiting for another session
			}
			select {
			case <-sp.sb.Done():
			case <-time.After(patience):
				t.Error("it still runs")
			}
			if s.id != sp.id {
				if _, err := os.Stat(sp.dir); err == nil {
					t.Error("its directory is left")
				}
			}
		})
	}
}

// What leads to an MCP server belongs to the session: a sandbox that is made ahead opens
// none, and it ends with the session.
func TestSparesOpenNoWays(t *testing.T) {
	outside := httptest.NewServer(http.NotFoundHandler())
	defer outside.Close()
	r := spareRig(t, func(r *rig) {
		r.opts.SpareAfter = 100 * time.Millisecond
		r.opts.AllowServers = []string{"*"}
	})
	cwd := t.TempDir()
	server := json.RawMessage(`{"type":"http","name":"db","url":"` + outside.URL + `","headers":[]}`)
	for range 2 { // the second is made with the spare of the first
		resp, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: cwd, MCPServers: []json.RawMessage{server}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.router.session(resp.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		b := r.ready(t, s)
		if len(b.ways) != 1 {
			t.Errorf("%d ways lead to one server", len(b.ways))
		}
		if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: s.id}); err != nil {
			t.Fatal(err)
		}
		r.ahead(t)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if n := bytes.Count(stacks, []byte("(*serverWay).Accept")); n != 0 {
		t.Errorf("%d ways are open without a session", n)
	}
}

// TestSparesEnd: nothing that was made ahead outlives the router, also not what
// is being made.
func TestSparesEnd(t *testing.T) {
	making := make(chan struct{})
	r := spareRig(t, func(r *rig) {
		n := 0
		r.driver.onCreate = func(ctx context.Context, _ sandbox.Spec) error {
			if n++; n == 2 {
				close(making)
				<-ctx.Done()
			}
			return nil // in spite of that
		}
	})
	s := r.openIn(t, t.TempDir())
	r.ready(t, s)
	select {
	case <-making:
	case <-time.After(patience):
		t.Fatal("nothing is made ahead")
	}
	r.router.Close()
	r.driver.mu.Lock()
	defer r.driver.mu.Unlock()
	for _, sb := range r.driver.made {
		select {
		case <-sb.done:
		default:
			t.Errorf("the sandbox %s is left", sb.spec.ID)
		}
		if _, err := os.Stat(filepath.Dir(sb.spec.Home)); err == nil {
			t.Errorf("the directory of %s is left", sb.spec.ID)
		}
	}
	if len(r.driver.made) != 2 {
		t.Errorf("%d sandboxes were made", len(r.driver.made))
	}
}

func TestNoSparesUnlessWanted(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.SpareAfter = time.Millisecond })
	r.ready(t, r.openIn(t, t.TempDir()))
	r.router.spares.work.Wait()
	if n := r.journal.count("create"); n != 1 {
		t.Errorf("%d sandboxes were made", n)
	}
}

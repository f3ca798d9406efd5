package router

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// What rules refuse inside is told once, in words that say why.
func TestDenials(t *testing.T) {
	r := newRig(t, func(r *rig) { r.terms.rules = &sandbox.Rules{Own: "/own", Optional: true} })
	s := r.open(t)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	spec := r.driver.last().spec
	if spec.Rules == nil || spec.Rules.Own != "/own" || !spec.Rules.Optional {
		t.Fatalf("the sandbox got the rules %+v", spec.Rules)
	}
	for range 3 {
		spec.Rules.Denied(sandbox.Denial{Operation: "open", Path: filepath.Join(spec.WorkingDir, "sub/.env"), PID: 7})
	}
	spec.Rules.Denied(sandbox.Denial{Operation: "renameat2", Path: filepath.Join(spec.WorkingDir, ".gooseignore"), PID: 7})
	spec.Rules.Denied(sandbox.Denial{Operation: "open", Path: filepath.Join(spec.WorkingDir, ".git/objects/pack/a.pack"), Rule: sandbox.DeniedByGit})
	spec.Rules.Denied(sandbox.Denial{Operation: "connect", Path: filepath.Join(spec.WorkingDir, "helper"), Rule: sandbox.DeniedUnheard})
	spec.Rules.Denied(sandbox.Denial{Operation: "open", Path: "/state/git/1.closed/ab/cdef", Rule: sandbox.HiddenByGit})
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	said := r.editor.Text(s.SessionID, acp.AgentThoughtChunk)
	for text, n := range map[string]int{"git there may call them missing or corrupt": 1, "/state/git": 0, `a.pack may keep content of closed files, and policy.git is "hide"`: 1, "sub/.env is closed by .gooseignore": 1, "helper is a socket at which nobody in the sandbox listens": 1, "helper is closed": 0, "helper cannot be changed": 0, ".gooseignore cannot be changed from inside": 1} {
		if got := strings.Count(said, text); got != n {
			t.Errorf("%q is said %d times, want %d: %q", text, got, n, said)
		}
	}
}

// The editor adds no directory that would show the system or gander's own state.
func TestAdditionalDirectories(t *testing.T) {
	r := newRig(t, nil)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.router.opts.Private = []string{key}
	inside := filepath.Join(r.router.opts.StateDir, "sessions")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"/": "part of the system", "/etc": "part of the system", filepath.Dir(key): "gander's own state",
		r.router.opts.StateDir: "gander's own state", inside: "gander's own state", t.TempDir(): "",
	} {
		_, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), AdditionalDirectories: []string{dir}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

func TestNoRules(t *testing.T) {
	r := newRig(t, nil)
	r.open(t)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	if spec := r.driver.last().spec; spec.Rules != nil {
		t.Errorf("the sandbox got the rules %+v", spec.Rules)
	}
}

// toolUser is a fake agent that can use the developer server.
type toolUser struct{ *fakeAgent }

func (toolUser) UsesDeveloper() {}

// The tools are chosen by agents that can choose; the sandbox then has a door for what they print.
func TestDeveloperTools(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.Agents[0] = toolUser{r.agent} })
	s := r.open(t)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	if hasOutputDoor(r) {
		t.Error("an agent with its own tools has a door for those of others")
	}
	if got := r.mustSet(t, s.SessionID, "tools", "developer"); !strings.HasSuffix(got, "tools=developer") {
		t.Errorf("options %s", got)
	}
	r.journal.wait(t, "open duck mode= model= resume=", 2)
	if !hasOutputDoor(r) {
		t.Error("there is no door for the output of the tools")
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if got := r.mustSet(t, s.SessionID, "tools", "native"); !strings.HasSuffix(got, "tools=native") {
		t.Errorf("options after the first prompt: %s", got)
	}
	r.journal.wait(t, "close sandbox", 2)
	r.journal.wait(t, "open duck mode= model= resume=", 3) // an own session with other tools is none
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	if hasOutputDoor(r) {
		t.Error("an agent that got its own tools back has a door for those of others")
	}
}

func hasOutputDoor(r *rig) bool {
	return slices.ContainsFunc(r.driver.last().spec.Doors, func(d sandbox.Door) bool { return d.Name == outputDoor })
}

// receiver is a conversation that takes output.
type receiver struct {
	sandbox.AgentSession
	got chan sandbox.ToolOutput
}

func (r receiver) ToolOutput(o sandbox.ToolOutput) { r.got <- o }

// What comes through the door reaches the conversation; what is none is left out.
func TestOutputDoor(t *testing.T) {
	var o output
	to := receiver{got: make(chan sandbox.ToolOutput, 1)}
	o.to(to)
	conn, err := o.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, conn, "nonsense\n"+`{"tool":"shell","arguments":{"command":"make"},"text":"done\n"}`+"\n")
	if got := <-to.got; got.Tool != "shell" || got.Text != "done\n" || string(got.Arguments) != `{"command":"make"}` {
		t.Errorf("got %+v", got)
	}
	_ = conn.Close()
	o.wg.Wait()
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// A session may have its agent only read the project, and what the editor adds; an agent of
// which the person has said so does no more.
func TestAccess(t *testing.T) {
	r := newRig(t, nil)
	added := t.TempDir()
	s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), AdditionalDirectories: []string{added}, Meta: json.RawMessage(`{"access":"read"}`)})
	if err != nil {
		t.Fatal(err)
	}
	readOnly := func(want bool, n int) {
		t.Helper()
		r.journal.wait(t, "open duck mode= model= resume=", n)
		spec := r.driver.last().spec
		for _, m := range spec.Mounts {
			if m.Path == added && m.Writable == want {
				t.Errorf("the directory that was added: %+v", m)
			}
		}
		if spec.ReadOnly != want {
			t.Errorf("the project is only read: %t, want %t", spec.ReadOnly, want)
		}
	}
	readOnly(true, 1)
	r.mustSet(t, s.SessionID, "access", "write")
	readOnly(false, 2)
	if _, err := r.set(s.SessionID, "access", "none"); err == nil {
		t.Error("an access was taken that there is not")
	}
	if _, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), Meta: json.RawMessage(`{"access":"none"}`)}); err == nil {
		t.Error("a session was made with an access that there is not")
	}
	r = newRig(t, func(r *rig) { r.opts.Agents[0] = reader{r.agent} })
	s = r.open(t)
	readOnly(true, 1)
	if _, err := r.set(s.SessionID, "access", "write"); err == nil {
		t.Error("an agent that only reads may write")
	}
}

// reader is an agent that only reads.
type reader struct{ sandbox.Agent }

func (reader) ReadsOnly() bool { return true }

package router

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
)

// fakeProgram is a program that reads until it is killed or its input ends.
type fakeProgram struct {
	stdin  *io.PipeWriter
	output *io.PipeReader // of both kinds; nothing comes
	closed *io.PipeWriter
	ended  chan struct{}
	once   sync.Once
}

// newFakeProgram starts one; what it has read comes from the channel when it has ended.
func newFakeProgram() (*fakeProgram, <-chan string) {
	in, stdin := io.Pipe()
	output, closed := io.Pipe()
	p := &fakeProgram{stdin: stdin, output: output, closed: closed, ended: make(chan struct{})}
	read := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(in)
		_ = p.Kill(context.Background())
		read <- string(all)
	}()
	return p, read
}

func (p *fakeProgram) PID() int                             { return 1 }
func (p *fakeProgram) Stdin() io.WriteCloser                { return p.stdin }
func (p *fakeProgram) Stdout() io.Reader                    { return p.output }
func (p *fakeProgram) Stderr() io.Reader                    { return p.output }
func (p *fakeProgram) Signal(context.Context, string) error { return nil }

func (p *fakeProgram) Kill(context.Context) error {
	p.once.Do(func() {
		close(p.ended)
		_ = p.closed.Close()
	})
	return nil
}

func (p *fakeProgram) Wait(context.Context) (sandbox.ExitStatus, error) {
	<-p.ended
	return sandbox.ExitStatus{}, nil
}

// What an agent sends to a server that is a program leaves the sandbox.
func TestLeakToAProgram(t *testing.T) {
	for mode, want := range map[string]string{confine.CanariesShow: "it is " + canaryToken + " and more", confine.CanariesStop: "it is " + canaryToken[:7]} {
		t.Run(mode, func(t *testing.T) {
			var way confine.Way
			r, id := canaryRig(t, mode, &way, func(context.Context, *fakeConv) error { return nil })
			r.wantStop(t, id, "go", acp.StopEndTurn)
			s, err := r.router.session(id)
			if err != nil {
				t.Fatal(err)
			}
			program, read := newFakeProgram()
			here, there := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.servers.carry(&server{Name: "db"}, program, here, new(lastWords), func(string) {})
			}()
			for _, piece := range []string{"it is " + canaryToken[:7], canaryToken[7:], " and more"} {
				_, _ = io.WriteString(there, piece) // an error is what stop is for
			}
			_ = there.Close()
			<-done
			if got := <-read; got != want {
				t.Errorf("the program got %q, want %q", got, want)
			}
			r.editor.Wait(t, "what is said about it", func() bool {
				return strings.Contains(r.said(id), "was seen in what the agent sends to the MCP server db")
			})
		})
	}
}

// A server that cannot be read is named, and nothing that it was given is said.
func TestServersThatCannotBeRead(t *testing.T) {
	var learned []string
	r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}}, func(r *rig) {
		r.opts.LearnSecrets = func(values []acp.EnvVariable) {
			for _, v := range values {
				learned = append(learned, v.Name+"="+v.Value)
			}
		}
	})
	var servers []json.RawMessage
	for _, raw := range []string{
		`{"name":"github","command":"npx","env":{"GITHUB_TOKEN":"secret-1"}}`,
		`{"name":"web","type":"http","url":"https://web.example","headers":{"Authorization":"Bearer secret-2"}}`,
		`{"name":"list","command":"npx","args":"secret-x","env":[{"name":"LIST_KEY","value":"secret-3"}]}`,
		`{"command":"npx","env":[{"name":"NAMELESS_KEY","value":"secret-4"}]}`,
		`"npx --token secret-x"`,
	} {
		servers = append(servers, json.RawMessage(raw))
	}
	s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), MCPServers: servers})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`server github cannot be read and is left out: its \"env\" is not`, `server web cannot be read and is left out: its \"headers\" is not`,
		`server list cannot be read and is left out: its \"args\" is not`, `server number 4 cannot be read and is left out: it has no name`,
		`server number 5 cannot be read and is left out: it is not an object`,
	} {
		r.editor.Wait(t, want, func() bool { return about(r.editor.Updates(s.SessionID), want) })
	}
	if about(r.editor.Updates(s.SessionID), "secret") {
		t.Errorf("the thread says a secret: %s", r.editor.Updates(s.SessionID))
	}
	if want := []string{"GITHUB_TOKEN=secret-1", "Authorization=Bearer secret-2", "LIST_KEY=secret-3", "NAMELESS_KEY=secret-4"}; !slices.Equal(learned, want) {
		t.Errorf("learned %q, want %q", learned, want)
	}
}

// exited is a program that has exited, whose streams end when it is killed.
type exited struct{ *fakeProgram }

func (exited) Wait(context.Context) (sandbox.ExitStatus, error) { return sandbox.ExitStatus{}, nil }

// What a program says last is told without the secrets that it was given.
func TestLastWordsWithoutSecrets(t *testing.T) {
	r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}}, func(r *rig) {
		r.opts.HideSecrets = func(text string) string { return strings.ReplaceAll(text, "secret-1", "[hidden]") }
	})
	id := r.open(t).SessionID
	s, err := r.router.session(id)
	if err != nil {
		t.Fatal(err)
	}
	program, _ := newFakeProgram()
	here, there := net.Pipe()
	defer there.Close()
	words := &lastWords{text: []byte("my token is secret-1")}
	s.servers.carry(&server{Name: "db"}, exited{program}, here, words, func(how string) { s.servers.failed(&server{Name: "db"}, how) })
	r.editor.Wait(t, "the last words", func() bool { return about(r.editor.Updates(id), "its last words: my token is [hidden]") })
}

// What a program gets as variables can decide what it runs: an answer for one set of
// them is none for another. Their values may be secret, and are neither shown nor kept.
func TestVariablesAreAskedAbout(t *testing.T) {
	plain := server{Name: "db", Command: "node", Args: []string{"/opt/db.js"}}
	with := func(name, value string) *server {
		v := plain
		v.Env = []acp.EnvVariable{{Name: name, Value: value}}
		return &v
	}
	known := with("DB_TOKEN", "secret-1")
	for _, other := range []*server{&plain, with("NODE_OPTIONS", "--require=./evil.js"), with("DB_TOKEN", "secret-2"), with("DB_TOKENs", "ecret-1")} {
		if other.subject() == known.subject() {
			t.Errorf("the answer for %v holds for %v", known.Env, other.Env)
		}
	}
	if known.subject() != with("DB_TOKEN", "secret-1").subject() {
		t.Error("the same server is asked about again")
	}
	if want := `{"args":["/opt/db.js"],"command":"node","url":""}`; plain.subject().Text != want {
		t.Errorf("earlier answers do not hold any more: %s", plain.subject().Text)
	}
	if got := known.where() + known.subject().Text; !strings.Contains(known.where(), "DB_TOKEN") || strings.Contains(got, "secret-1") {
		t.Errorf("the person is shown %s", got)
	}
}

// The agent writes the project. A program that runs outside is none of it, does not begin
// there, where npx, uvx and python -m look for code first, and looks for none there.
func TestProgramsAreNotTheProjects(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of Unix")
	}
	outside := &fakeDriver{name: sandbox.Off}
	r := newRig(t, func(r *rig) {
		outside.journal = r.journal
		r.opts.Drivers = []sandbox.Driver{r.driver, outside}
		r.opts.AllowServers = []string{"*"}
		r.opts.ServerEnv = []string{"PATH=/usr/bin"}
	})
	project, added, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	for link, to := range map[string]string{project + "/tool": "/bin/cat", elsewhere + "/tool": project + "/real", elsewhere + "/dir": added} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(project+"/real", nil, 0o700); err != nil {
		t.Fatal(err)
	}
	opened, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: project, AdditionalDirectories: []string{added}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.router.session(opened.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{project + "/node_modules/.bin", ".", "", "bin", "/usr/bin", elsewhere + "/dir", added, elsewhere}, string(filepath.ListSeparator))
	start := func(command string) error {
		_, err := s.servers.run(t.Context(), &server{Name: "db", Command: command, Env: []acp.EnvVariable{{Name: "PATH", Value: path}}}, func() {}, func(string) {})
		return err
	}
	for _, command := range []string{project + "/tool", project + "/real", elsewhere + "/tool", elsewhere + "/dir/any", added + "/any", "./tool", "bin/../tool"} {
		if err := start(command); err == nil || !strings.Contains(err.Error(), "the agent") {
			t.Errorf("%s: %v", command, err)
		}
	}
	args := []string{"--config=" + project + "/real", elsewhere + "/tool", "/etc/hosts", project, "real"}
	if got := s.writable(&server{Args: args}); !slices.Equal(got, []string{project + "/real", elsewhere + "/tool"}) {
		t.Errorf("the person is told of %q", got)
	}
	if err := start("npx"); err == nil || !strings.Contains(err.Error(), "the fake starts nothing") {
		t.Fatal(err)
	}
	sb := outside.last()
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if len(sb.started) != 1 {
		t.Fatalf("started %v", sb.started)
	}
	c := sb.started[0]
	if entries, err := os.ReadDir(c.Dir); err != nil || len(entries) > 0 || !strings.HasPrefix(c.Dir, r.opts.StateDir) {
		t.Errorf("it begins in %s: %v, %v", c.Dir, entries, err)
	}
	if want := "PATH=" + strings.Join([]string{"/usr/bin", elsewhere}, string(filepath.ListSeparator)); !slices.Equal(c.Env, []string{"PATH=/usr/bin", want}) {
		t.Errorf("it gets %q, want %q", c.Env, want)
	}
}

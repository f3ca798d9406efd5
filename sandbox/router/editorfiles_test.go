package router

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/confine/confinetest"
	"gander.dev/gander/sandbox/rules/policy"
)

// buffersEditor is an editor with unsaved text in every file that it is asked for.
type buffersEditor struct {
	// mu guards what follows.
	mu      sync.Mutex
	reads   []string
	written map[string]string
	refuse  error
}

func (e *buffersEditor) answer(_ context.Context, method string, params json.RawMessage) (any, error) {
	var p struct{ Path, Content string }
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse != nil {
		return nil, e.refuse
	}
	switch method {
	case methodReadTextFile:
		e.reads = append(e.reads, p.Path)
		return map[string]string{"content": "unsaved 1\nunsaved 2\nunsaved 3\n"}, nil
	case methodWriteTextFile:
		e.written[p.Path] = p.Content
		return struct{}{}, nil
	}
	return nil, acp.ErrMethodNotFound
}

// fileRig is a rig with such an editor, whose agent asks for files in a turn.
func fileRig(t *testing.T, turn func(ask func(method string, params map[string]any) (string, error)), adjust func(*rig)) (*rig, *buffersEditor) {
	t.Helper()
	e := &buffersEditor{written: map[string]string{}}
	r := newRigFor(t, acp.ClientCapabilities{FS: acp.FileSystemCapability{ReadTextFile: true, WriteTextFile: true}}, func(r *rig) {
		r.driver.isolated = true
		r.terms.rules = &sandbox.Rules{}
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			turn(func(method string, params map[string]any) (string, error) {
				raw, err := json.Marshal(params)
				if err != nil {
					t.Error(err)
				}
				answer, err := c.params.Client.(acp.RequestHandler).HandleRequest(ctx, method, raw)
				out, _ := json.Marshal(answer)
				return string(out), err
			})
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
		if adjust != nil {
			adjust(r)
		}
	})
	r.editor.Request = e.answer
	return r, e
}

// The text that is not saved is what the agent gets, and its edit goes to the
// editor, by paths without links; nothing moves inside meanwhile.
func TestFilesOfTheEditor(t *testing.T) {
	project := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(project, link); err != nil {
		t.Fatal(err)
	}
	writeFile(t, project, "a.txt", "saved")
	r, e := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		for want, params := range map[string]map[string]any{
			`{"content":"unsaved 1\nunsaved 2\nunsaved 3\n"}`: {"path": link + "/a.txt"},
			`{"content":"unsaved 2\n"}`:                       {"path": link + "/a.txt", "line": 2, "limit": 1},
			`{"content":""}`:                                  {"path": link + "/a.txt", "line": 9},
		} {
			if got, err := ask(methodReadTextFile, params); got != want || err != nil {
				t.Errorf("read %v: %s, %v", params, got, err)
			}
		}
		if _, err := ask(methodWriteTextFile, map[string]any{"path": link + "/new/b.txt", "content": "edited"}); err != nil {
			t.Error(err)
		}
		for _, bad := range []map[string]any{{"path": "a.txt"}, {"path": 7}, {}} {
			if got, err := ask(methodReadTextFile, bad); err == nil {
				t.Errorf("read %v: %s", bad, got)
			}
		}
	}, nil)
	s := r.editor.NewSession(t, link)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if e.reads[0] != project+"/a.txt" || e.written[project+"/new/b.txt"] != "edited" {
		t.Errorf("the editor was asked for %q and changed %q", e.reads, e.written)
	}
	if held, freed := r.journal.count("hold"), r.journal.count("release"); held != 4 || freed != held {
		t.Errorf("names were held %d times and released %d times", held, freed)
	}
}

// The editor is never asked for what is closed, protected, or not a plain file of
// the project: it works with the person's rights.
func TestFilesThatAreNotTheEditors(t *testing.T) {
	project, outside := t.TempDir(), t.TempDir()
	writeFile(t, outside, "secret", "s")
	writeFile(t, project, ".env", "KEY=1")
	writeFile(t, project, "sub/.env.local", "KEY=1")
	writeFile(t, project, "plain", "p")
	writeFile(t, project, ".gooseignore", ".env*\nhidden/\n")
	for name, target := range map[string]string{"link": outside + "/secret", "dir": outside, "inner": "plain", "self": "."} {
		if err := os.Symlink(target, filepath.Join(project, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(project, ".env"), filepath.Join(project, "twin")); err != nil {
		t.Fatal(err)
	}
	closed := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "is restricted by .gooseignore")
	}
	r, e := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		for _, name := range []string{".env", "sub/.env.local", "hidden/x", "hidden/new/y"} {
			if got, err := ask(methodReadTextFile, map[string]any{"path": filepath.Join(project, name)}); !closed(err) {
				t.Errorf("reading %s: %s, %v", name, got, err)
			}
			if _, err := ask(methodWriteTextFile, map[string]any{"path": filepath.Join(project, name), "content": "x"}); !closed(err) {
				t.Errorf("writing %s: %v", name, err)
			}
		}
		for _, path := range []string{
			project + "/link", project + "/dir/secret", project + "/dir/new", project + "/inner", project + "/self/plain", project + "/twin", project + "/sub",
			project + "/plain/x", project, "/etc/passwd", outside + "/secret", project + "/../" + filepath.Base(outside) + "/secret", project + "/" + strings.Repeat("x", 300),
		} {
			if got, err := ask(methodReadTextFile, map[string]any{"path": path}); err == nil || closed(err) { // the fake sandbox starts nothing
				t.Errorf("reading %s: %s, %v", path, got, err)
			}
		}
		for _, name := range []string{".gooseignore", ".git/config", ".git/hooks/pre-commit", ".gander.json", "link", "dir/x"} {
			if _, err := ask(methodWriteTextFile, map[string]any{"path": filepath.Join(project, name), "content": "x"}); err == nil {
				t.Errorf("%s was written", name)
			}
		}
		if len(r2(ask(methodReadTextFile, map[string]any{"path": project + "/plain"}))) == 0 {
			t.Error("a plain file is not read")
		}
	}, nil)
	s := r.editor.NewSession(t, project)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if len(e.reads) != 1 || len(e.written) != 0 {
		t.Errorf("the editor was asked for %q and changed %q", e.reads, e.written)
	}
}

func r2(text string, err error) string {
	if err != nil {
		return ""
	}
	return text
}

// Where nothing keeps the agent from moving names under the editor's feet, the
// editor is not asked, unless the agent has the person's rights anyway.
func TestFilesWithoutAHold(t *testing.T) {
	for _, tt := range []struct {
		name            string
		isolated, short bool
		err             error
		asked           int
		works           bool
	}{
		{"held", true, false, nil, 1, true},
		{"isolated, cannot be held", true, false, errors.New("no rules"), 0, false},
		{"not isolated", false, false, errors.New("no rules"), 1, true},
		{"the hold was over", true, true, nil, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			project := t.TempDir()
			writeFile(t, project, "a.txt", "saved")
			r, e := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
				if got, err := ask(methodReadTextFile, map[string]any{"path": project + "/a.txt"}); (err == nil) != tt.works {
					t.Errorf("read %s, %v", got, err)
				}
			}, func(r *rig) { r.driver.isolated, r.driver.short, r.driver.holdErr = tt.isolated, tt.short, tt.err })
			r.wantStop(t, r.editor.NewSession(t, project).SessionID, "x", acp.StopEndTurn)
			if len(e.reads) != tt.asked {
				t.Errorf("the editor was asked for %q", e.reads)
			}
		})
	}
}

// rulesDriver makes sandboxes that start nothing and keep the rules of confinetest's.
type rulesDriver struct {
	*fakeDriver
	unread func() error
}

func (d rulesDriver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := d.fakeDriver.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	made := sb.(*fakeSandbox)
	return struct {
		*fakeSandbox
		sandbox.RuleKeeper
	}{made, &confinetest.Sandbox{Dir: spec.WorkingDir, Log: d.journal.add, Unread: d.unread}}, nil
}

// What the sandbox itself does not let be written, such as the hooks of a repository
// below the project, the editor does not write; what git's configuration names is read
// before the agent starts, and again before each turn.
func TestFilesThatTheSandboxProtects(t *testing.T) {
	project := t.TempDir()
	r, e := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		for path, written := range map[string]bool{project + "/sub/named": false, project + "/other": true} {
			if _, err := ask(methodWriteTextFile, map[string]any{"path": path, "content": "x"}); (err == nil) != written {
				t.Errorf("writing %s: %v", path, err)
			}
		}
		// What a closed link leads to only the sandbox knows.
		for path, read := range map[string]bool{project + "/linked": false, project + "/other": true} {
			if _, err := ask(methodReadTextFile, map[string]any{"path": path}); (err == nil) != read {
				t.Errorf("reading %s: %v", path, err)
			}
		}
	}, func(r *rig) {
		r.opts.Drivers = []sandbox.Driver{rulesDriver{fakeDriver: r.driver}}
	})
	s := r.editor.NewSession(t, project)
	for range 2 {
		r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	}
	if len(e.written) != 1 || e.written[project+"/other"] != "x" {
		t.Errorf("the editor changed %q", e.written)
	}
	if n := r.journal.count("protect named"); n != 3 {
		t.Errorf("git's configuration was read %d times", n)
	}
}

// What git's configuration names may be unknown before a later prompt: the agent is not
// asked then, and is again when it is known.
func TestPromptWhereConfigurationIsUnread(t *testing.T) {
	var unread error
	r, _ := fileRig(t, func(func(string, map[string]any) (string, error)) {}, func(r *rig) {
		r.opts.Drivers = []sandbox.Driver{rulesDriver{r.driver, func() error { return unread }}}
	})
	s := r.editor.NewSession(t, t.TempDir())
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	unread = errors.New("it cannot be read")
	if got := r.ask(t, s.SessionID, "x"); got.err == nil || !strings.Contains(got.err.Error(), unread.Error()) {
		t.Errorf("%+v", got)
	}
	unread = nil
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
}

// An agent that has not answered yet runs already: its names are held, too.
func TestFilesWhileAnotherAgentStarts(t *testing.T) {
	project := t.TempDir()
	writeFile(t, project, "a.txt", "saved")
	starts, goOn := make(chan struct{}), make(chan struct{})
	r, _ := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		if _, err := ask(methodReadTextFile, map[string]any{"path": project + "/a.txt"}); err != nil {
			t.Error(err)
		}
	}, nil)
	first := r.editor.NewSession(t, project)
	r.wantStop(t, first.SessionID, "x", acp.StopEndTurn)
	before := r.journal.count("hold")
	r.agent.onOpen = func(ctx context.Context, _ *fakeConv) error {
		close(starts)
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return nil
	}
	r.editor.NewSession(t, project)
	<-starts
	r.wantStop(t, first.SessionID, "x", acp.StopEndTurn)
	close(goOn)
	if held := r.journal.count("hold") - before; held != 2 {
		t.Errorf("names were held in %d sandboxes, not in both", held)
	}
}

// Whatever has not ended is held, also when its session is no longer open.
func TestFilesWhileOthersEnd(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, r *rig, other acp.SessionID){
		"the session is closed": func(t *testing.T, r *rig, other acp.SessionID) {
			go func() {
				_, _ = r.editor.Conn.CloseSession(context.Background(), &acp.CloseSessionRequest{SessionID: other})
			}()
			r.journal.wait(t, "cancel", 1)
		},
		"the session is deleted": func(t *testing.T, r *rig, other acp.SessionID) {
			go func() {
				_, _ = r.editor.Conn.DeleteSession(context.Background(), &acp.DeleteSessionRequest{SessionID: other})
			}()
			r.journal.wait(t, "cancel", 1)
		},
		"the agent is replaced twice": func(t *testing.T, r *rig, other acp.SessionID) {
			r.mustSet(t, other, optionAgent, "swan")
			r.mustSet(t, other, optionAgent, "duck")
		},
	} {
		t.Run(name, func(t *testing.T) {
			project := t.TempDir()
			writeFile(t, project, "a.txt", "saved")
			goOn := make(chan struct{})
			r, _ := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
				if _, err := ask(methodReadTextFile, map[string]any{"path": project + "/a.txt"}); err != nil {
					t.Error(err)
				}
			}, func(r *rig) {
				r.opts.CancelDeadline = patience
				read := r.agent.onTurn
				r.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
					if text != "work" {
						return read(ctx, c, text)
					}
					<-goOn
					return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
				}
			})
			other := r.editor.NewSession(t, project).SessionID
			end := r.prompt(t, other, "work")
			r.journal.wait(t, "prompt work in mode auto", 1)
			leave(t, r, other)
			r.wantStop(t, r.editor.NewSession(t, project).SessionID, "read", acp.StopEndTurn)
			if held := r.journal.count("hold"); held != 2 {
				t.Errorf("names were held in %d sandboxes, not in both", held)
			}
			close(goOn)
			<-end
		})
	}
}

// A sandbox whose supervisor has ended cannot be held, and is waited for: something may
// run in it until it is closed.
func TestFilesWhileASandboxCloses(t *testing.T) {
	project := t.TempDir()
	writeFile(t, project, "a.txt", "saved")
	slow := make(chan struct{})
	read := func(ctx context.Context, c *fakeConv) error {
		_, err := c.params.Client.(acp.RequestHandler).HandleRequest(ctx, methodReadTextFile, marshal(map[string]string{"path": project + "/a.txt"}))
		return err
	}
	r, e := fileRig(t, nil, func(r *rig) {
		r.driver.slow = slow
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
			defer stop()
			if err := read(short, c); err == nil { // the fake sandbox starts nothing
				t.Error("the editor was asked while something may have run in another sandbox")
			}
			close(slow)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, read(ctx, c)
		}
	})
	other := r.editor.NewSession(t, project).SessionID
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	closed := make(chan error, 1)
	go func() {
		_, err := r.editor.Conn.CloseSession(context.Background(), &acp.CloseSessionRequest{SessionID: other})
		closed <- err
	}()
	for made := r.driver.last(); !made.closing.Load(); {
		time.Sleep(time.Millisecond)
	}
	r.wantStop(t, r.editor.NewSession(t, project).SessionID, "x", acp.StopEndTurn)
	if err := <-closed; err != nil || len(e.reads) != 1 {
		t.Errorf("the editor was asked for %q; closing: %v", e.reads, err)
	}
}

// No agent begins to run while names are held: nobody would hold its sandbox.
func TestNoAgentStartsWhileNamesAreHeld(t *testing.T) {
	project := t.TempDir()
	writeFile(t, project, "a.txt", "saved")
	r, e := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		if _, err := ask(methodReadTextFile, map[string]any{"path": project + "/a.txt"}); err != nil {
			t.Error(err)
		}
	}, nil)
	s := r.editor.NewSession(t, project).SessionID
	started := make(chan struct{})
	r.editor.Request = func(ctx context.Context, method string, params json.RawMessage) (any, error) {
		r.agent.onOpen = func(context.Context, *fakeConv) error { close(started); return nil }
		r.editor.NewSession(t, project)
		r.journal.wait(t, "create", 2)
		select {
		case <-started:
			t.Error("an agent started while the editor was asked")
		case <-time.After(50 * time.Millisecond):
		}
		return e.answer(ctx, method, params)
	}
	r.wantStop(t, s, "x", acp.StopEndTurn)
	<-started
}

// The developer server's door leads no further, and nowhere between turns.
func TestFilesDoor(t *testing.T) {
	project := t.TempDir()
	writeFile(t, project, "a.txt", "saved")
	writeFile(t, project, ".env", "x")
	var asking func(sandbox.FileRequest) sandbox.FileAnswer
	r, e := fileRig(t, func(func(string, map[string]any) (string, error)) {
		if a := asking(sandbox.FileRequest{Path: project + "/a.txt"}); !strings.HasPrefix(a.Text, "unsaved 1") {
			t.Errorf("read %+v", a)
		}
		if a := asking(sandbox.FileRequest{Path: project + "/a.txt", Write: true, Text: "edited"}); a != (sandbox.FileAnswer{}) {
			t.Errorf("wrote %+v", a)
		}
		if a := asking(sandbox.FileRequest{Path: project + "/.env"}); !strings.Contains(a.Error, "restricted") {
			t.Errorf("read .env: %+v", a)
		}
		if a := asking(sandbox.FileRequest{Path: "/etc/passwd"}); !a.NoBuffer {
			t.Errorf("read /etc/passwd: %+v", a)
		}
	}, func(r *rig) {
		r.opts.Agents[0] = toolUser{r.agent}
		r.opts.Tools = ToolsDeveloper
	})
	s := r.editor.NewSession(t, project)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	asking = doorTo(t, r)
	if a := asking(sandbox.FileRequest{Path: project + "/a.txt"}); !a.NoBuffer {
		t.Errorf("between turns: %+v", a)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if e.written[project+"/a.txt"] != "edited" || len(e.reads) != 1 {
		t.Errorf("the editor was asked for %q and changed %q", e.reads, e.written)
	}
}

// doorTo connects to the files door of the last sandbox.
func doorTo(t *testing.T, r *rig) func(sandbox.FileRequest) sandbox.FileAnswer {
	t.Helper()
	for _, d := range r.driver.last().spec.Doors {
		if d.Name != filesDoor {
			continue
		}
		conn, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		enc, dec := json.NewEncoder(conn), json.NewDecoder(conn)
		return func(req sandbox.FileRequest) (a sandbox.FileAnswer) {
			if err := enc.Encode(req); err != nil {
				t.Error(err)
			}
			if err := dec.Decode(&a); err != nil {
				t.Error(err)
			}
			return a
		}
	}
	t.Fatal("there is no door to the files")
	return nil
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file that is in two directories of the session is closed when the rules of one of
// them close it, and the editor changes nothing where sandboxes only read.
func TestFilesOfAdditionalDirectories(t *testing.T) {
	project, shown := t.TempDir(), t.TempDir()
	writeFile(t, project, ".gooseignore", "/inner/closed\n")
	writeFile(t, project, "inner/closed", "c")
	writeFile(t, project, "inner/open", "o")
	writeFile(t, shown, "page", "p")
	r, e := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		if got, err := ask(methodReadTextFile, map[string]any{"path": project + "/inner/closed"}); err == nil || !strings.Contains(err.Error(), "restricted by .gooseignore") {
			t.Errorf("a file that the outer directory closes: %s, %v", got, err)
		}
		for _, path := range []string{project + "/inner/open", shown + "/page"} {
			if _, err := ask(methodReadTextFile, map[string]any{"path": path}); err != nil {
				t.Errorf("reading %s: %v", path, err)
			}
		}
		_, _ = ask(methodWriteTextFile, map[string]any{"path": shown + "/page", "content": "x"}) // the fake sandbox starts nothing
	}, func(r *rig) { r.opts.ReadOnly = []string{shown} })
	s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: project, AdditionalDirectories: []string{project + "/inner", shown}})
	if err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if len(e.reads) != 2 || len(e.written) != 0 {
		t.Errorf("the editor was asked for %q and changed %q", e.reads, e.written)
	}
}

// The editor changes nothing that the sandbox of the session could not: the policy of
// its project counts, also what it allows, and what git uses under other names. What
// git keeps may be closed inside, and is not read by the editor either.
func TestFilesThatThePolicyProtects(t *testing.T) {
	project, added := t.TempDir(), t.TempDir()
	writeFile(t, project, ".git/config", "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../shared.gitconfig\n")
	writeFile(t, project, ".git/objects/00/1", "o")
	writeFile(t, added, ".git/config", "[core]\n\thooksPath = scripts\n")
	writeFile(t, added, ".gooseignore", "*.key\n")
	writeFile(t, added, "a.key", "k")
	writes := policy.Writes{Protect: []string{"@ci", "/deploy"}, Allow: []string{".vscode/settings.json", "@shell"}}
	allowed := []string{project + "/.vscode/settings.json", project + "/.envrc", project + "/a/deploy/x", project + "/tools/x", added + "/src/x"}
	r, e := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		for _, path := range []string{
			project + "/.github/workflows/x.yml", project + "/deploy/x", project + "/.vscode/tasks.json", project + "/tools/hooks/pre-commit",
			project + "/shared.gitconfig", project + "/.git/COMMIT_EDITMSG", added + "/.github/workflows/x.yml", added + "/scripts/pre-commit", added + "/.git/config", added + "/a.key",
		} {
			if _, err := ask(methodWriteTextFile, map[string]any{"path": path, "content": "x"}); err == nil {
				t.Errorf("%s was written", path)
			}
		}
		for _, path := range allowed {
			if _, err := ask(methodWriteTextFile, map[string]any{"path": path, "content": "x"}); err != nil {
				t.Errorf("writing %s: %v", path, err)
			}
		}
		for _, path := range []string{project + "/.git/objects/00/1", project + "/.git/config", added + "/a.key"} {
			if got, err := ask(methodReadTextFile, map[string]any{"path": path}); err == nil { // the fake sandbox starts nothing
				t.Errorf("reading %s: %s", path, got)
			}
		}
	}, func(r *rig) {
		r.terms.policy = func(string) (confine.Policy, error) {
			p := policy.Default()
			p.Writes = writes
			return confine.Policy{Policy: p}, nil
		}
	})
	s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: project, AdditionalDirectories: []string{added}})
	if err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if got := slices.Sorted(maps.Keys(e.written)); !slices.Equal(got, slices.Sorted(slices.Values(allowed))) || len(e.reads) != 0 {
		t.Errorf("the editor was asked for %q and changed %q", e.reads, got)
	}
}

// runningDriver makes sandboxes whose programs run here.
type runningDriver struct{ *fakeDriver }

func (d runningDriver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := d.fakeDriver.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	here := &confinetest.Sandbox{Sandbox: sb, Dir: spec.WorkingDir, Log: d.journal.add}
	return runningSandbox{sb.(*fakeSandbox), here, here}, nil
}

type runningSandbox struct {
	*fakeSandbox
	sandbox.RuleKeeper
	here *confinetest.Sandbox
}

func (s runningSandbox) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return s.here.Start(ctx, c)
}

// Text that does not fit in a message to the editor, as it is sent, is written in the
// sandbox, and the person is told, unless the editor has unsaved text of that file; what
// is more than may pass is refused.
func TestLargeTextsForTheEditor(t *testing.T) {
	project := t.TempDir()
	writeFile(t, project, "saved", "\ufeffunsaved 1\r\nunsaved 2\nunsaved 3\n")
	writeFile(t, project, "unsaved", "saved 1\n")
	html, plain := strings.Repeat("<b>&amp;", 100_000), strings.Repeat("x", 1_100_000)
	var asking func(sandbox.FileRequest) sandbox.FileAnswer
	r, e := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		if _, err := ask(methodWriteTextFile, map[string]any{"path": project + "/html", "content": html}); err != nil {
			t.Errorf("markup of %d bytes, which fit: %v", len(html), err)
		}
		for _, name := range []string{"unsaved", "not there"} { // but the editor has text of it
			_, err := ask(methodWriteTextFile, map[string]any{"path": filepath.Join(project, name), "content": plain})
			if err == nil || !strings.Contains(err.Error(), "is not what is on the disk") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if a := asking(sandbox.FileRequest{Path: project + "/saved", Write: true, Text: plain}); !a.NoBuffer {
			t.Errorf("by the door, what does not fit: %+v", a)
		}
		_, err := ask(methodWriteTextFile, map[string]any{"path": project + "/saved", "content": plain})
		if got, _ := os.ReadFile(project + "/saved"); err != nil || len(got) > 0 { // the fake's programs read nothing
			t.Errorf("the sandbox did not write what does not fit: %v", err)
		}
		if a := asking(sandbox.FileRequest{Path: project + "/unsaved", Write: true, Text: plain}); !strings.Contains(a.Error, "is not what is on the disk") {
			t.Errorf("by the door, what the editor has unsaved: %+v", a)
		}
		if a := asking(sandbox.FileRequest{Path: project + "/.env", Write: true, Text: plain}); !strings.Contains(a.Error, "restricted") {
			t.Errorf("a closed file: %.200s", a.Error)
		}
		if a := asking(sandbox.FileRequest{Path: project + "/saved", Write: true, Text: strings.Repeat("x", maxText+1)}); !strings.Contains(a.Error, "more than the 8388608") {
			t.Errorf("more than may pass: %.200s", a.Error)
		}
	}, func(r *rig) {
		r.opts.Agents[0] = toolUser{r.agent}
		r.opts.Tools = ToolsDeveloper
		r.opts.Drivers = []sandbox.Driver{runningDriver{r.driver}}
	})
	s := r.editor.NewSession(t, project)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	asking = doorTo(t, r)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if e.written[project+"/html"] != html || len(e.written) != 1 {
		t.Errorf("the editor changed %q", slices.Collect(maps.Keys(e.written)))
	}
	if got := r.editor.Text(s.SessionID, acp.AgentThoughtChunk); strings.Count(got, "is too large to be handed to your editor") != 1 || !strings.Contains(got, "saved is too large") {
		t.Errorf("the person was told %s", got)
	}
}

// Package e2e puts the built binary between independent clients and real
// agents: the official TypeScript SDK and acpx in front, goose or opencode behind,
// in a local sandbox or in a container (cells_test.go), and a scripted model
// (conformance/model) as the only thing that is not real.
//
// A test starts an editor, opens sessions and prompts them; the prompt carries
// the script the model follows. Every frame in both directions is recorded, and
// when the test ends all of them are checked: against the schema the SDK ships,
// and for what the protocol says about their order (frames_test.go).
//
// make e2e runs the tests with everything they need, and then nothing skips;
// CANCEL_RUNS says how often the cancel shapes are repeated. GANDER_E2E_CMD names
// another gander than bin/gander.
package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/conformance/model"
)

// patience is how long a test waits for something that should happen at once.
// It only bounds a failing test; the machine may be busy.
const patience = 2 * time.Minute

// canary is the key of the model, another one in every run. Its bytes may be
// nowhere but in gander and in the requests that reach the model.
var canary = "sk-canary-" + rand.Text()

// ordinaryUser is a user without any right, and without an entry in any file.
const ordinaryUser = 24816

// need ends the test when a condition for it is missing: as a failure where
// everything was promised to be there (make check), as a skip elsewhere.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("GANDER_CHECK") == "1":
		t.Fatalf("missing: %s", what)
	default:
		t.Skipf("missing: %s; make e2e has it", what)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func fromRoot(t *testing.T, elem ...string) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// needGander returns the path of the binary under test.
func needGander(t *testing.T) string {
	t.Helper()
	p := os.Getenv("GANDER_E2E_CMD")
	if p == "" {
		p = fromRoot(t, "bin/gander")
	}
	need(t, exists(p), "bin/gander (make build)")
	return stage(t, p)
}

func needClients(t *testing.T) {
	t.Helper()
	need(t, exists(fromRoot(t, "conformance/node_modules/.installed")), "the npm clients (make deps)")
	_, err := exec.LookPath("node")
	need(t, err == nil, "node")
}

func needRoot(t *testing.T) {
	t.Helper()
	need(t, os.Geteuid() == 0, "root, to become another user")
}

// staged holds programs where an ordinary user can run them: the clone may be in
// somebody's home directory.
var staged = struct {
	sync.Mutex
	dir string
}{}

func stage(t *testing.T, program string) string {
	t.Helper()
	staged.Lock()
	defer staged.Unlock()
	to := filepath.Join(staged.dir, filepath.Base(program))
	if exists(to) {
		return to
	}
	if err := os.Link(program, to); err == nil {
		return to
	}
	if err := copyFile(program, to); err != nil {
		t.Fatalf("copying %s to where every user can run it: %v", program, err)
	}
	return to
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

func TestMain(m *testing.M) {
	if act := standIns[filepath.Base(os.Args[0])]; act != nil {
		if err := act(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "gander-e2e-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	staged.dir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// A world is what one test runs in: an agent in a kind of sandbox, a model, a home
// and directories for one user.
type world struct {
	t     *testing.T
	cell  cell
	uid   int // 0: whoever runs the test
	gid   int
	dir   string
	model *model.Server
	host  string // of the model, without /v1
}

// newWorld starts a model. With a uid, everything belongs to that user. When the
// test ends, everything is gone that gander made.
func newWorld(t *testing.T, c cell, uid int) *world {
	t.Helper()
	dir, err := os.MkdirTemp(staged.dir, "world-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, cell: c, uid: uid, gid: uid, dir: dir, model: model.New(model.Options{Key: canary, Keep: 100_000})}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("a test leaves files that cannot be removed: %v", err)
		}
	})
	if uid != 0 && c.driver.group != nil {
		w.gid = c.driver.group(t)
	}
	w.own(dir)
	t.Cleanup(func() { w.noContainers() })
	if w.host, err = w.model.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.model.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// in is the same world for a part of its test.
func (w *world) in(t *testing.T) *world {
	part := *w
	part.t = t
	return &part
}

func (w *world) own(path string) {
	w.t.Helper()
	if w.uid == 0 {
		return
	}
	if err := os.Chown(path, w.uid, w.uid); err != nil {
		w.t.Fatal(err)
	}
}

// mkdir returns a directory of the world's user.
func (w *world) mkdir(name string) string {
	w.t.Helper()
	p := filepath.Join(w.dir, name)
	if err := os.MkdirAll(p, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.own(p)
	return p
}

func (w *world) write(dir, name, text string) string {
	w.t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.own(p)
	return p
}

func (w *world) read(path string) string {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// baseEnv is the whole environment of a program in this world.
func (w *world) baseEnv() map[string]string {
	return map[string]string{
		"PATH": os.Getenv("PATH"), "LANG": "C.UTF-8",
		"HOME": w.mkdir("home"), "TMPDIR": w.mkdir("tmp"),
	}
}

// gander is an editor with bin/gander acp behind it; env adds to, and wins over,
// the usual configuration.
func (w *world) gander(env map[string]string, args ...string) *editor {
	w.t.Helper()
	return startEditor(w.t, launch{
		command: append(w.acp(), args...), env: w.ganderEnv(env), uid: w.uid, gid: w.gid, dir: w.dir,
	})
}

// acp is the command of gander as an editor has it in its settings.
func (w *world) acp() []string {
	return append([]string{needGander(w.t), "acp"}, w.cell.flags()...)
}

func (w *world) ganderEnv(more map[string]string) map[string]string {
	w.t.Helper()
	env := w.baseEnv()
	env["GANDER_HOME"] = w.ganderHome()
	env["GANDER_LOG_LEVEL"] = "debug"
	env["LLM_HOST"] = w.host
	env["LLM_API_KEY"] = canary
	maps.Copy(env, w.cell.env(w.t))
	maps.Copy(env, more)
	return env
}

func (w *world) ganderHome() string { return filepath.Join(w.dir, "gander") }

// goose is an editor with the bare goose behind it: what gander's users had
// before. It shows that the scripts and the model are right when gander is not.
func (w *world) goose(env map[string]string) *editor {
	w.t.Helper()
	return startEditor(w.t, launch{command: []string{agents[0].program(w.t), "acp"}, env: w.gooseEnv(env), dir: w.dir})
}

func (w *world) gooseEnv(more map[string]string) map[string]string {
	all := w.baseEnv()
	maps.Copy(all, map[string]string{
		"GOOSE_PROVIDER": "openai", "OPENAI_HOST": w.host, "OPENAI_API_KEY": canary, "GOOSE_MODEL": "gpt-4o",
		"GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1", "GOOSE_DISABLE_SESSION_NAMING": "true",
		"GOOSE_PATH_ROOT": w.mkdir("goose"),
	})
	maps.Copy(all, more)
	return all
}

// soon is a context that ends when patience does.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// count reads how often something is repeated from the environment.
func count(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a count", variable, text)
	}
	return n
}

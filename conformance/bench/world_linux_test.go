package bench

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/conformance/model"
)

// A world holds what both sides of every pair share: the programs, a directory,
// and a scripted model that answers at once.
type world struct {
	t        *testing.T
	gander   string
	goose    string
	opencode string
	self     string // the directory of the programs that are this one
	dir      string
	key      string
	host     string // of the model, without /v1
	clock    *clock
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), key: "sk-" + rand.Text()}
	w.gander = w.find("GANDER_BENCH_CMD", "bin/gander", "make build")
	w.goose = w.find("GANDER_GOOSE_CMD", "sandbox/node_modules/@aaif/goose-binary-linux-x64/bin/goose", "make agents")
	w.opencode = w.find("GANDER_OPENCODE_CMD", "sandbox/node_modules/opencode-linux-x64/bin/opencode", "make agents")
	for _, program := range []string{"bash", "sleep", "seq"} {
		_, err := exec.LookPath(program)
		need(t, err == nil, "there is no "+program+" in PATH")
	}
	w.self = w.mkdir("programs")
	w.startModel()
	return w
}

// find returns the path of a program: what the variable names, else what the
// target makes at a path of the repository.
func (w *world) find(variable, path, target string) string {
	w.t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		program = filepath.Join("..", "..", path)
	}
	program, err := filepath.Abs(program)
	if err != nil {
		w.t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(program)
	need(w.t, err == nil, "there is no "+program+" ("+target+", or set "+variable+")")
	return real
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func (w *world) startModel() {
	m := model.New(model.Options{Key: w.key, Keep: 10})
	w.clock = &clock{next: m, sent: map[string]time.Time{}}
	server := httptest.NewServer(w.clock)
	w.host = server.URL
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Error(err)
		}
		server.Close()
	})
}

func (w *world) mkdir(elem ...string) string {
	w.t.Helper()
	dir := filepath.Join(append([]string{w.dir}, elem...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// program returns the path of this program under another name.
func (w *world) program(name string) string {
	w.t.Helper()
	path := filepath.Join(w.self, name)
	if exists(path) {
		return path
	}
	self, err := os.Executable()
	if err == nil {
		err = copyFile(self, path)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = w.mkdir("project")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + w.mkdir("home"), "TMPDIR=" + w.mkdir("tmp")}, env...)
	return cmd
}

// ganderACP is bin/gander acp as an editor starts it, with an agent's program.
func (w *world) ganderACP(agent string) *exec.Cmd {
	return w.command([]string{
		"GANDER_HOME=" + w.mkdir("gander"), "GANDER_GOOSE_CMD=" + agent,
		"LLM_HOST=" + w.host, "LLM_API_KEY=" + w.key, "GOOSE_MODEL=gpt-4o",
	}, w.gander, "acp")
}

// gooseACP is goose acp as an editor would start it.
func (w *world) gooseACP() *exec.Cmd {
	return w.command([]string{
		"GOOSE_PROVIDER=openai", "OPENAI_HOST=" + w.host, "OPENAI_API_KEY=" + w.key, "GOOSE_MODEL=gpt-4o",
		"GOOSE_MODE=auto", "GOOSE_DISABLE_KEYRING=1", "GOOSE_DISABLE_SESSION_NAMING=true", "GOOSE_TELEMETRY_OFF=1",
		"GOOSE_PATH_ROOT=" + w.mkdir("goose"),
	}, w.goose, "acp")
}

// warm starts an agent, opens a session and prompts it a few times.
func (w *world) warm(cmd *exec.Cmd, copiers ...*exec.Cmd) *client {
	w.t.Helper()
	c := start(w.t, cmd, copiers...)
	c.open(cmd.Dir)
	for range 3 {
		c.finish("Hello.", nil)
	}
	return c
}

// A clock stands in front of the model and notes when it says each word "t17 ".
type clock struct {
	next http.Handler

	// mu guards sent.
	mu   sync.Mutex
	sent map[string]time.Time
}

func (c *clock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.next.ServeHTTP(&stamped{w, c}, r)
}

// reset forgets the words of the turns before.
func (c *clock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.sent)
}

func (c *clock) when(word string) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.sent[word]
	if !ok {
		return at, errors.New("the model did not say " + word)
	}
	return at, nil
}

var wordPattern = regexp.MustCompile(`"content":"(t\d+) "`)

// stamped is a response whose words are noted right before they are written.
type stamped struct {
	http.ResponseWriter
	clock *clock
}

func (s *stamped) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *stamped) Write(p []byte) (int, error) {
	if m := wordPattern.FindSubmatch(p); m != nil {
		s.clock.mu.Lock()
		s.clock.sent[string(m[1])] = time.Now()
		s.clock.mu.Unlock()
	}
	return s.ResponseWriter.Write(p)
}

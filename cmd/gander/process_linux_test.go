package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/demo"
)

// patience bounds what should happen soon; the machine may be busy.
const patience = time.Minute

// A child is gander as a process of its own.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Scanner
	stderr *syncBuffer
	home   string
	dir    string // the project
	marker string // a sleep time that only this test's processes have
	waited sync.Once
	code   int
}

// syncBuffer is a buffer for two goroutines.
type syncBuffer struct {
	// mu guards b.
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// prepare makes a home and a project for a gander that start starts.
func prepare(t *testing.T) *child {
	t.Helper()
	dir := t.TempDir()
	c := &child{
		t: t, home: filepath.Join(dir, "home"), dir: filepath.Join(dir, "project"), stderr: new(syncBuffer),
		marker: fmt.Sprintf("88%d", time.Now().UnixNano()%1e9),
	}
	for _, d := range []string{c.home, c.dir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *child) start(env []string, args ...string) *child {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	return c.startProgram(self, env, append([]string{"gander"}, args...)...)
}

// startProgram starts another program in gander's place; argv begins with its name.
func (c *child) startProgram(program string, env []string, argv ...string) *child {
	c.t.Helper()
	var err error
	c.cmd = exec.Command(program)
	c.cmd.Args = argv
	c.cmd.Dir = c.dir
	c.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "GANDER_HOME=" + c.home}, env...)
	c.cmd.Stderr = c.stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	c.lines.Buffer(nil, 1<<20)
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		c.wait()
		if c.t.Failed() {
			c.t.Logf("stderr:\n%s", c.stderr)
		}
	})
	return c
}

// expect reads lines until one contains text, and returns that.
func (c *child) expect(text string) string {
	c.t.Helper()
	stuck := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer stuck.Stop()
	for c.lines.Scan() {
		if strings.Contains(c.lines.Text(), text) {
			return c.lines.Text()
		}
	}
	c.t.Fatalf("stdout ended without %q", text)
	return ""
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// insist sends a signal again and again until nothing sleeps for the marked time.
// Signals of one kind become one when they come together; those that come after the
// command are gander's own, and the second of them ends it on the spot.
func (c *child) insist(sig os.Signal) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if found, _ := demo.Processes(c.marker); !slices.Contains(found, "sleep "+c.marker) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal("the command survives every signal")
		}
		c.signal(sig)
	}
}

// wait waits for the end, reading what is left, and returns the exit code.
func (c *child) wait() int {
	c.waited.Do(func() {
		stuck := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
		defer stuck.Stop()
		for c.lines.Scan() {
		}
		err := c.cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			c.code = exit.ExitCode()
		}
	})
	return c.code
}

// nothingLeft fails when a marked process is still there after a while.
func (c *child) nothingLeft() {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		left, _ := demo.Processes(c.marker)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("left over: %q", left)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Signals go to the command, whose way of ending is gander's exit code.
func TestExecForwardsSignals(t *testing.T) {
	tests := []struct {
		name, script string
		signals      []os.Signal
		code         int
	}{
		{"default", "sleep MARK", []os.Signal{syscall.SIGTERM}, 128 + 15},
		{"interrupt", "sleep MARK", []os.Signal{os.Interrupt}, 128 + 2},
		{"hangup", "sleep MARK", []os.Signal{syscall.SIGHUP}, 128 + 1},
		{"handled", "trap 'exit 9' INT; sleep MARK & wait", []os.Signal{os.Interrupt}, 9},
		{"ignored", "trap '' TERM; sleep MARK", []os.Signal{syscall.SIGTERM}, 128 + 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := prepare(t)
			script := "echo ready; " + strings.ReplaceAll(tt.script, "MARK", c.marker) + "; true"
			if tt.name == "default" || tt.name == "interrupt" || tt.name == "hangup" {
				script = "echo ready; exec sleep " + c.marker
			}
			c.start(nil, "sandbox", "exec", "--", "sh", "-c", script)
			c.expect("ready")
			c.awaitMarked()
			for _, s := range tt.signals {
				c.signal(s)
			}
			if tt.name == "ignored" {
				c.insist(syscall.SIGTERM)
			}
			if got := c.wait(); got != tt.code {
				t.Errorf("exit code %d, want %d", got, tt.code)
			}
			c.nothingLeft()
		})
	}
}

// awaitMarked waits until a process sleeps for the marked time.
func (c *child) awaitMarked() {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		found, _ := demo.Processes(c.marker)
		if slices.Contains(found, "sleep "+c.marker) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no sleeping process: %q", found)
		}
	}
}

// The end of stdin is passed on; a command that does not read it does not wait for it.
func TestExecStdin(t *testing.T) {
	c := prepare(t).start(nil, "sandbox", "exec", "--", "sh", "-c", "cat; echo end")
	if _, err := io.WriteString(c.stdin, "some input\n"); err != nil {
		t.Fatal(err)
	}
	c.expect("some input")
	_ = c.stdin.Close()
	c.expect("end")
	if code := c.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	open := prepare(t).start(nil, "sandbox", "exec", "--", "true")
	if code := open.wait(); code != 0 {
		t.Errorf("with an open stdin the exit code is %d", code)
	}
}

// A gander that is killed takes everything with it.
func TestExecKilled(t *testing.T) {
	c := prepare(t)
	c.start(nil, "sandbox", "exec", "--", "sh", "-c", "trap '' HUP TERM; (setsid sleep "+c.marker+" &); echo ready; sleep "+c.marker)
	c.expect("ready")
	c.awaitMarked()
	c.signal(os.Kill)
	c.wait()
	c.nothingLeft()
}

// gc also clears away the control groups of a gander that was killed.
func TestGroupsCleared(t *testing.T) {
	c := prepare(t)
	name := "cleared-" + c.marker
	groups := func() (found []string) {
		_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.Contains(path, name) {
				found = append(found, path)
			}
			return nil
		})
		return found
	}
	c.start(nil, "sandbox", "exec", "--name", name, "--", "sh", "-c", "echo ready; sleep "+c.marker)
	c.expect("ready")
	record, err := os.ReadFile(filepath.Join(c.home, "sandboxes", name, "sandbox.json"))
	if err != nil {
		t.Fatal(err)
	}
	made := groups()
	if len(made) == 0 {
		t.Skip("there are no cgroups that this user could make")
	}
	for _, path := range made {
		if !strings.Contains(string(record), strconv.Quote(path)) {
			t.Errorf("%s is not in the record %s", path, record)
		}
	}
	c.signal(os.Kill)
	c.wait()
	c.nothingLeft()
	if len(groups()) == 0 {
		t.Error("the groups are gone by themselves: the test tests nothing")
	}
	c.start(nil, "sandbox", "gc").expect("removed " + name)
	c.wait()
	if left := groups(); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// stuckAgent speaks just enough ACP to get a prompt. It never answers that, nor a
// cancel, and starts a process that wants to stay.
const stuckAgent = `#!/bin/bash
trap '' TERM HUP INT
while read -r line; do
  id=$(sed -n 's/.*"id":\([0-9]*\).*/\1/p' <<<"$line")
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1,"agentCapabilities":{}}}';;
    *'"session/new"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"s"}}';;
    *'"session/prompt"'*) setsid sleep MARK & sleep MARK;;
  esac
done
sleep MARK
`

// withStuckAgent configures an agent that has to be ended by force, and a cancel
// that would wait a minute for it.
func (c *child) withStuckAgent() []string {
	c.t.Helper()
	agent := filepath.Join(filepath.Dir(c.dir), "agent")
	if err := os.Mkdir(agent, 0o755); err != nil {
		c.t.Fatal(err)
	}
	agent = filepath.Join(agent, "goose")
	err := errors.Join(
		os.WriteFile(agent, []byte(strings.ReplaceAll(stuckAgent, "MARK", c.marker)), 0o755),
		os.WriteFile(filepath.Join(c.home, "config.json"), []byte(`{"cancelDeadline": "1m"}`), 0o600),
	)
	if err != nil {
		c.t.Fatal(err)
	}
	return []string{"GANDER_GOOSE_CMD=" + agent, "LLM_HOST=http://127.0.0.1:1", "GOOSE_MODEL=m"}
}

func (c *child) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.stdin, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// Whatever ends gander acp, everything is cleared away soon, exit code 0, also with
// an agent that answers nothing.
func TestACPEnds(t *testing.T) {
	for _, end := range []string{"EOF", "15", "2", "1"} {
		t.Run(end, func(t *testing.T) {
			c := prepare(t)
			c.start(c.withStuckAgent(), "acp")
			c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
			c.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, c.dir)
			var opened struct {
				Result struct {
					SessionID string `json:"sessionId"`
				} `json:"result"`
			}
			if err := json.Unmarshal([]byte(c.expect(`"id":1`)), &opened); err != nil {
				t.Fatal(err)
			}
			c.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"hi"}]}}`, opened.Result.SessionID)
			c.awaitMarked()
			began := time.Now()
			if n, err := strconv.Atoi(end); err == nil {
				c.signal(syscall.Signal(n))
			} else {
				_ = c.stdin.Close()
			}
			if code := c.wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if took := time.Since(began); took > 20*time.Second { // 1 s on a machine with nothing else to do
				t.Errorf("it took %s", took)
			}
			c.nothingLeft()
			if dirs, _ := filepath.Glob(filepath.Join(c.home, "sandboxes", "[^.]*")); len(dirs) > 0 { // there is a lock file too
				t.Errorf("a sandbox is left: %v", dirs)
			}
		})
	}
}

// Ctrl-C ends the turn of gander run with exit code 130, and everything with it.
func TestRunInterrupted(t *testing.T) {
	c := prepare(t)
	env := c.withStuckAgent()
	if err := os.WriteFile(filepath.Join(c.home, "config.json"), []byte(`{"cancelDeadline": "200ms"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(env, "run", "--format", "json", "hi")
	c.expect("sessionId")
	c.awaitMarked()
	c.signal(os.Interrupt)
	if code := c.wait(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(c.stderr.String(), "gander: interrupted") {
		t.Errorf("stderr: %s", c.stderr)
	}
	c.nothingLeft()
}

// A signal ends gander sandbox probe with exit code 130, and everything with it.
func TestProbeInterrupted(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		c := prepare(t)
		temporary, err := os.MkdirTemp("", "p") // a test's own has no room for the names of sockets
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(temporary) })
		c.start([]string{"TMPDIR=" + temporary}, "sandbox", "probe", "--sandbox", "local", "--only", "files")
		c.expect("blocked")
		c.signal(sig)
		if code := c.wait(); code != cli.ExitInterrupted {
			t.Errorf("%v: exit code %d", sig, code)
		}
		if got := c.stderr.String(); got != "gander: interrupted\n" {
			t.Errorf("%v: stderr: %q", sig, got)
		}
		if left, _ := filepath.Glob(temporary + "/*"); len(left) > 0 {
			t.Errorf("%v: left over: %q", sig, left)
		}
	}
}

// A signal at any time ends gander run: also before the prompt is on its way.
func TestRunInterruptedEarly(t *testing.T) {
	for _, delay := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond} {
		c := prepare(t)
		env := c.withStuckAgent()
		if err := os.WriteFile(filepath.Join(c.home, "config.json"), []byte(`{"cancelDeadline": "200ms"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		c.start(env, "run", "hi")
		time.Sleep(delay) // to hit different moments of the start; all must do
		c.signal(os.Interrupt)
		if code := c.wait(); code != cli.ExitInterrupted && code != -1 { // -1: before gander listened to signals
			t.Errorf("after %s: exit code %d", delay, code)
		}
		c.nothingLeft()
	}
}

// A changed configuration counts for the next session; a broken one is reported.
func TestACPReloads(t *testing.T) {
	c := prepare(t)
	c.start([]string{"GANDER_GOOSE_CMD=/bin/true"}, "acp")
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
	c.expect(`"id":0`)
	id := 0
	says := func(text string) bool {
		id++
		c.send(`{"jsonrpc":"2.0","id":%d,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, id, c.dir)
		return strings.Contains(c.expect(fmt.Sprintf(`"id":%d`, id)), text)
	}
	if !says("no model endpoint is configured for goose") {
		t.Fatal("without a configuration a session is opened")
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(c.home, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	soon := func(what string, ok func() bool) {
		for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	write(`{"model": {"host": "http://127.0.0.1:1"}}`)
	soon("the new file is not used", func() bool { return says("no model is chosen for goose") })
	write(`{"model": {"hosts": "http://127.0.0.1:1"}}`)
	soon("the broken file is not reported", func() bool {
		return strings.Contains(c.stderr.String(), "the changed configuration is not used") && strings.Contains(c.stderr.String(), "model.hosts")
	})
	_ = c.stdin.Close()
	if code := c.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

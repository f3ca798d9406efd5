// Package sandboxtest holds the contract of sandbox.Driver as tests that every
// driver runs: [TestDriver] for processes and doors, [TestIsolation] for what a
// sandbox must hide and forbid. The commands that it runs are those of a POSIX
// system; drivers whose sandboxes have none cannot use it.
package sandboxtest

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

// patience bounds everything that should take no time: the machine may be busy.
const patience = 30 * time.Second

// NewDriver makes the driver under test.
type NewDriver func(*testing.T) sandbox.Driver

// Everywhere reports whether every test runs in every place, as soak wants it
// (GANDER_EVERYWHERE=1). Otherwise the tests run in full for an ordinary user in the local
// sandbox; root and containers have those whose result depends on the place.
func Everywhere() bool { return os.Getenv("GANDER_EVERYWHERE") == "1" }

// OnlyEverywhere skips a test that runs in full for an ordinary user in the local sandbox,
// unless tests run everywhere.
func OnlyEverywhere(t *testing.T) {
	t.Helper()
	if !Everywhere() {
		t.Skip("an ordinary user runs it in the local sandbox, make soak here too")
	}
}

// Env is the environment that commands of the tests get, besides a mark.
func Env(more ...string) []string {
	return append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}, more...)
}

// Spec returns a specification with a project and a home of the test's own. The
// project belongs to owner, if the test may give it away; -1 leaves it as it is.
func Spec(t *testing.T, owner int) sandbox.Spec {
	t.Helper()
	project := filepath.Join(t.TempDir(), "project")
	home := filepath.Join(t.TempDir(), "home")
	for _, dir := range []string{project, home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Drivers that do not isolate need to get there as another user.
	if err := os.Chmod(filepath.Dir(filepath.Dir(project)), 0o755); err != nil {
		t.Fatal(err)
	}
	if owner >= 0 && os.Geteuid() == 0 {
		if err := os.Chown(project, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	return sandbox.Spec{ID: "test-" + strings.ToLower(rand.Text()), WorkingDir: project, Home: home, Rules: &sandbox.Rules{}}
}

// Create makes a sandbox that is closed with the test.
func Create(t *testing.T, d sandbox.Driver, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sb, err := d.Create(ctx, spec)
	if err != nil {
		t.Fatalf("creating a sandbox: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Errorf("closing the sandbox: %v", err)
		}
	})
	return sb
}

// Run runs a shell script in sb and returns what it wrote and how it ended. It
// kills what the script leaves behind.
func Run(t *testing.T, sb sandbox.Sandbox, script string, env ...string) (stdout, stderr string, st sandbox.ExitStatus) {
	t.Helper()
	p := Start(t, sb, script, env...)
	_ = p.Stdin().Close()
	errs := make(chan string, 1)
	go func() { errs <- readAll(t, p.Stderr()) }()
	outs := make(chan string, 1)
	go func() { outs <- readAll(t, p.Stdout()) }()
	st = Wait(t, p)
	Kill(t, p)
	return <-outs, <-errs, st
}

// Start starts a shell script in sb.
func Start(t *testing.T, sb sandbox.Sandbox, script string, env ...string) sandbox.Process {
	t.Helper()
	return StartCommand(t, sb, sandbox.Command{Args: []string{"/bin/sh", "-c", script}, Env: Env(env...)})
}

// StartCommand starts a command in sb.
func StartCommand(t *testing.T, sb sandbox.Sandbox, cmd sandbox.Command) sandbox.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := sb.Start(ctx, cmd)
	if err != nil {
		t.Fatalf("starting %q: %v", cmd.Args, err)
	}
	return p
}

// Wait waits for a command.
func Wait(t *testing.T, p sandbox.Process) sandbox.ExitStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	st, err := p.Wait(ctx)
	if err != nil {
		t.Fatalf("waiting for a command: %v", err)
	}
	return st
}

// Kill kills a command and all it started.
func Kill(t *testing.T, p sandbox.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Kill(ctx); err != nil {
		t.Fatalf("killing a command: %v", err)
	}
}

// readAll reads to the end, which has to come.
func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	done := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(r)
		done <- string(b)
	}()
	select {
	case all := <-done:
		return all
	case <-time.After(patience):
		t.Fatal("waited for the end of an output that did not come")
		return ""
	}
}

// readLine reads up to a line end, byte by byte, so that nothing is taken too much.
func readLine(t *testing.T, r io.Reader) string {
	t.Helper()
	type result struct {
		line []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var got result
		b := make([]byte, 1)
		for got.err == nil && b[0] != '\n' {
			if _, got.err = r.Read(b); got.err == nil {
				got.line = append(got.line, b[0])
			}
		}
		done <- got
	}()
	select {
	case got := <-done:
		if got.err != nil {
			t.Errorf("reading a line, got %q: %v", got.line, got.err)
		}
		return strings.TrimSuffix(string(got.line), "\n")
	case <-time.After(patience):
		t.Error("waited for a line that did not come")
		return ""
	}
}

// Mark returns an environment variable that nothing else on the machine has.
func Mark() string { return "GANDER_TEST_MARK=" + rand.Text() }

// Survivors lists the processes of the machine that carry a mark, and are not
// merely waiting to be reaped.
func Survivors(mark string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(dir + "/environ")
		if strings.Contains(string(env), mark) {
			cmd, _ := os.ReadFile(dir + "/cmdline")
			found = append(found, filepath.Base(dir)+": "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return found
}

// Eventually polls, for what the kernel gives no event for.
func Eventually(t *testing.T, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

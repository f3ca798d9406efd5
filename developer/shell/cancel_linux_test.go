package shell_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/developer/shell"
	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// What commands do to survive. Each prints "ready" when it has done it; every
// process has the mark in its environment.
var escapes = []struct{ name, line string }{
	{"forks", `sleep 600 & sleep 600 & echo ready; wait`},
	{"new session", `setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ready; sleep 600`},
	{"forks twice", `( ( setsid bash -c 'trap "" TERM HUP; sleep 600' </dev/null >/dev/null 2>&1 & ) & ); echo ready; sleep 600`},
	{"nohup", `nohup sleep 600 </dev/null >/dev/null 2>&1 & echo ready; wait`},
	{"ignores TERM", `trap '' TERM INT HUP; echo ready; while :; do sleep 1; done`},
	{"many", `for i in $(seq 40); do sleep 600 & done; echo ready; wait`},
	{"keeps forking", `setsid bash -c 'while :; do (setsid sleep 600 &) ; sleep 0.01; done' </dev/null >/dev/null 2>&1 & echo ready; sleep 600`},
	{"storm", `setsid bash -c 'trap "" TERM; while :; do (sleep 0.05 &); done' </dev/null >/dev/null 2>&1 & echo ready; sleep 600`},
	{"stopped", `sleep 600 & kill -STOP $!; echo ready; wait`},
	{"floods", `while :; do echo ready; done & yes ready`},
	{killsShepherd, `(sleep 600 & setsid sleep 600 & echo ready; kill -9 $PPID; sleep 600)`},
	{"main thread ends", `python3 -c 'import threading, time, ctypes
threading.Thread(target=lambda: (print("ready", flush=True), time.sleep(600))).start()
ctypes.CDLL(None).syscall(` + exitThread + `, 0)'`},
	{"tidies up", `trap 'exit 0' TERM; echo ready; sleep 600 & wait`},
}

// exitThread is the number of the system call that ends one thread.
var exitThread = itoa(unix.SYS_EXIT)

// killsShepherd ends by itself.
const killsShepherd = "kills its shepherd"

// count is a number from the environment: the long proofs are longer.
func count(t testing.TB, name string, usual int) int {
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestCancel cancels trees that try to escape, many at once. When the answer comes
// nothing of them is left.
func TestCancel(t *testing.T) {
	r := newRunner(t, shell.Options{})
	var took durations
	work := make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := range work {
				e := escapes[n%len(escapes)]
				took.add(e.name, cancelOne(t, r, e.name, e.line))
			}
		})
	}
	for n := range count(t, "GANDER_SHELL_CANCELS", 2*len(escapes)) {
		work <- n
	}
	close(work)
	wg.Wait()
	took.log(t)
}

// cancelOne runs a line, cancels it when it is ready and returns how long it took until
// the answer.
func cancelOne(t *testing.T, r *shell.Runner, name, line string) time.Duration {
	mark := newMark()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready := make(chan struct{})
	var once sync.Once
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, shell.Command{Line: line, Env: []string{mark}, Output: func(_, text string) {
			if text == "ready" {
				once.Do(func() { close(ready) })
			}
		}})
		done <- err
	}()
	select {
	case <-ready:
	case err := <-done:
		if name == killsShepherd { // its shepherd died before it could speak
			return 0
		}
		t.Errorf("%s: it ended by itself: %v", name, err)
		return 0
	}
	if name != killsShepherd { // a process has no environment for the moment of its exec
		for deadline := time.Now().Add(30 * time.Second); len(marked(mark)) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%s: no process has the mark: the test would find nothing", name)
				break
			}
		}
	}
	begin := time.Now()
	cancel()
	err := <-done
	d := time.Since(begin)
	if !errors.Is(err, context.Canceled) && name != killsShepherd {
		t.Errorf("%s: got %v", name, err)
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("%s: left: %v", name, left)
	}
	return d
}

// durations collects times by name.
type durations struct {
	mu sync.Mutex
	by map[string][]time.Duration
}

func (d *durations) add(name string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[string][]time.Duration{}
	}
	d.by[name] = append(d.by[name], took)
}

func (d *durations) log(t testing.TB) {
	for name, list := range d.by {
		slices.Sort(list)
		t.Logf("%-20s n=%d median %v p99 %v", name, len(list), list[len(list)/2], list[len(list)*99/100])
	}
}

// TestServerDies kills the server in the middle of a command: nothing survives.
func TestServerDies(t *testing.T) {
	for _, e := range escapes {
		t.Run(e.name, func(t *testing.T) {
			mark, tmp := newMark(), t.TempDir()
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Env = env(mark, serverEnv+"="+e.line, "TMPDIR="+tmp)
			cmd.Stderr = t.Output()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "ready" {
			}
			// The server itself has the mark too.
			if e.name != killsShepherd {
				if lines.Text() != "ready" {
					t.Fatalf("the last line is %q", lines.Text())
				}
				eventually(t, "the command is seen to run", func() bool { return len(marked(mark)) >= 2 })
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			eventually(t, "everything is gone", func() bool { return len(marked(mark)) == 0 })
		})
	}
}

// TestAsOrdinaryUser runs tests of this package again as a user without rights.
func TestAsOrdinaryUser(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^(TestCancel|TestServerDies|TestLeft|TestLeftGoesOn|TestSupervisorDies)$"})
}

// TestSupervisorStops: a command that stops its supervisor is ended all the same; it takes
// as long as one waits for an answer.
func TestSupervisorStops(t *testing.T) {
	t.Parallel()
	mark := newMark()
	r := newRunner(t, shell.Options{Env: env(mark), Grace: time.Millisecond})
	line := `sleep 600 & setsid sleep 600 & ` + findSupervisor + `
		echo ready; kill -STOP $supervisor; sleep 600`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(30*time.Second, cancel) // if it is never ready
	_, err := r.Run(ctx, shell.Command{Line: line, Output: func(_, text string) {
		if text == "ready" {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	eventually(t, "everything is gone", func() bool { return len(marked(mark)) == 0 })
	if got := run(t, r, shell.Command{Line: "echo again"}).Merged.Shown; got != "again\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// findSupervisor is for the first command of a supervisor: that has started its shepherd, the
// shell's parent, itself.
const findSupervisor = `supervisor=$(awk '{print $4}' /proc/$PPID/stat)`

// TestSupervisorDies: a command that kills its supervisors is ended, and the next
// one gets new ones.
func TestSupervisorDies(t *testing.T) {
	mark := newMark()
	r := newRunner(t, shell.Options{Env: env(mark)})
	line := `sleep 600 & setsid sleep 600 & ` + findSupervisor + `
		kill -9 $supervisor; sleep 600`
	if _, err := r.Run(t.Context(), shell.Command{Line: line}); err == nil {
		t.Error("the command ended as if nothing had happened")
	}
	eventually(t, "everything is gone", func() bool { return len(marked(mark)) == 0 })
	if got := run(t, r, shell.Command{Line: "echo again"}).Merged.Shown; got != "again\n" {
		t.Errorf("afterwards: %q", got)
	}
}

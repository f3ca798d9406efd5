package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A proc is a process as /proc shows it. The start time tells it from a later
// one with the same id.
type proc struct {
	pid, parent int
	start       string
	state       string
	program     string
	args        string
	environ     []byte
}

func (p proc) String() string { return fmt.Sprintf("%d(%s %s)", p.pid, p.state, p.args) }

func (p proc) alive() bool {
	now, ok := readProc(p.pid)
	return ok && now.start == p.start
}

func (p proc) kill(t *testing.T) {
	t.Helper()
	target, err := os.FindProcess(p.pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Kill(); err != nil {
		t.Fatalf("killing %v: %v", p, err)
	}
}

// readProc reads one process. A zombie is dead: it runs nothing and holds
// nothing, and is not returned.
func readProc(pid int) (proc, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return proc{}, false
	}
	// The name in parentheses may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return proc{}, false
	}
	p := proc{pid: pid, state: fields[0], start: fields[19]}
	p.parent, _ = strconv.Atoi(fields[1])
	args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	p.program, _, _ = strings.Cut(string(args), "\x00")
	p.args = strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))
	p.environ, _ = os.ReadFile(filepath.Join(dir, "environ"))
	return p, true
}

func processes(t *testing.T) []proc {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(names) == 0 {
		t.Fatalf("no processes in /proc: %v", err)
	}
	var all []proc
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// descendants returns the processes below pid.
func descendants(t *testing.T, pid int) []proc {
	t.Helper()
	all := processes(t)
	below := []proc{}
	for parents := []int{pid}; len(parents) > 0; parents = parents[1:] {
		for _, p := range all {
			if p.parent == parents[0] {
				below = append(below, p)
				parents = append(parents, p.pid)
			}
		}
	}
	return below
}

// marked returns the processes that carry a mark in their arguments or
// environment. Everything a marked shell starts inherits the mark, wherever it goes.
func marked(t *testing.T, mark string) []proc {
	t.Helper()
	return slices.DeleteFunc(processes(t), func(p proc) bool {
		return !strings.Contains(p.args, mark) && !bytes.Contains(p.environ, []byte(mark))
	})
}

// gone waits until none of the processes is left and returns how long that took.
func gone(t *testing.T, patience time.Duration, left func() []proc) time.Duration {
	t.Helper()
	begun := time.Now()
	for alive := left(); len(alive) > 0; alive = left() {
		if time.Since(begun) > patience {
			t.Fatalf("still there after %v: %v", patience, alive)
		}
		pause()
	}
	return time.Since(begun)
}

// eventually waits for what no event announces.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); pause() {
		if time.Since(begun) > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// pause is the interval at which /proc is asked again: the kernel tells no one
// when a process of others ends.
func pause() { time.Sleep(5 * time.Millisecond) }

func stillAlive(all []proc) func() []proc {
	return func() []proc {
		return slices.DeleteFunc(slices.Clone(all), func(p proc) bool { return !p.alive() })
	}
}

// What a supervisor does not need is not initialised when one starts: a sandbox takes
// several of them.
func TestSupervisorStartsEarly(t *testing.T) {
	const needless = "\ninit net/http "
	for _, tt := range []struct {
		args []string
		want bool
	}{{[]string{"supervise", "no-such-role"}, false}, {[]string{"version"}, true}} {
		cmd := exec.Command(needGander(t), tt.args...)
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, _ := cmd.CombinedOutput() // the first of them fails
		if got := bytes.Contains(out, []byte(needless)); got != tt.want || !bytes.Contains(out, []byte("\ninit os ")) {
			t.Errorf("gander %s: net/http is initialised: %v, want %v", tt.args[0], got, tt.want)
		}
	}
}

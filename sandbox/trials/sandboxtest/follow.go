package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

const (
	// followTime is what is promised of rules that change, of most changes on a machine that
	// has time: followTries are made of each kind.
	followTime  = 100 * time.Millisecond
	followTries = 11
	// followSteps is how many in turn have to get to run before rules are kept, the reader
	// among them. On a busy machine each waits as long as who only waits for a file.
	followSteps = 4
)

// TestRulesFollow tests that a sandbox that runs keeps the rules of now, the
// person's own and the project's, and within the time that is promised. owner is as for
// TestDriver.
func TestRulesFollow(t *testing.T, newDriver NewDriver, owner int) {
	f := follower{t: t, own: filepath.Join(t.TempDir(), "own")}
	spec := Spec(t, owner)
	f.project = spec.WorkingDir
	f.makeDir("sub")
	f.save(filepath.Join(f.project, "x.mine"), "secret\n")
	f.save(filepath.Join(f.project, "sub/x.mine"), "secret\n")
	spec.Rules = &sandbox.Rules{Own: f.own}
	f.sb = Create(t, newDriver(t), spec)
	change := func(file, rules string) func(int) (closed, opened time.Duration) {
		return func(int) (closed, opened time.Duration) { return f.change(file, rules) }
	}
	for _, tt := range []struct {
		name string
		try  func(n int) (closed, opened time.Duration)
	}{
		// The first closes, where there was no file.
		{"a person's rules", change("x.mine", f.own)},
		{"a project's rules", change("x.mine", filepath.Join(f.project, ".gooseignore"))},
		{"a directory's rules", change("sub/x.mine", filepath.Join(f.project, "sub/.gooseignore"))},
		{"a new directory's rules", f.changeNew},
	} {
		var waited, closed, opened []time.Duration
		for n := range followTries {
			c, o := tt.try(n)
			waited, closed, opened = append(waited, f.wait()), append(closed, c), append(opened, o)
		}
		limit := followTime + followSteps*median(waited)
		t.Logf("%s: closed after %v, %v at most, opened after %v, %v at most; a file is seen after %v, %v at most",
			tt.name, median(closed), slices.Max(closed), median(opened), slices.Max(opened), median(waited), slices.Max(waited))
		if median(closed) > limit || median(opened) > limit {
			t.Errorf("%s are kept %v after they close a file, and %v after they open it, want %v", tt.name, closed, opened, limit)
		}
	}
}

// follower changes rules of a sandbox and looks how long it takes until they are kept.
type follower struct {
	t            *testing.T
	sb           sandbox.Sandbox
	project, own string
}

// change has rules close a file, and open it again.
func (f follower) change(file, rules string) (closed, opened time.Duration) {
	closed = f.until("while read -r x < "+file+"; do :; done", func() { f.save(rules, "*.mine\n") })
	return closed, f.open(file, rules)
}

func (f follower) open(file, rules string) time.Duration {
	return f.until("until read -r x < "+file+"; do :; done", func() { f.save(rules, "*.other\n") })
}

// changeNew does so in a directory that is made together with its rules.
func (f follower) changeNew(n int) (closed, opened time.Duration) {
	dir := fmt.Sprint("new", n)
	file, rules := filepath.Join(dir, "x.mine"), filepath.Join(f.project, dir, ".gooseignore")
	closed = f.until("until test -e "+file+"; do :; done; while read -r x < "+file+"; do :; done", func() {
		f.makeDir(dir)
		f.save(filepath.Join(f.project, file), "secret\n")
		f.save(rules, "*.mine\n")
	})
	return closed, f.open(file, rules)
}

// wait is how long a file takes to be seen that no rules are about.
func (f follower) wait() time.Duration {
	sign := filepath.Join(f.project, "sign")
	defer func() { _ = os.Remove(sign) }()
	return f.until("until test -e sign; do :; done", func() { f.save(sign, "") })
}

// until runs a script that waits, acts, and returns how long after that the script ended.
func (f follower) until(script string, act func()) time.Duration {
	f.t.Helper()
	p := Start(f.t, f.sb, "echo spins; exec 2>/dev/null; "+script+"; date +%s%N")
	if readLine(f.t, p.Stdout()) != "spins" {
		f.t.Fatal("the reader did not start")
	}
	begin := time.Now()
	act()
	at, err := strconv.ParseInt(readLine(f.t, p.Stdout()), 10, 64)
	if err != nil {
		f.t.Fatalf("waited for the rules to be kept: %v", err)
	}
	Kill(f.t, p)
	return time.Unix(0, at).Sub(begin).Round(time.Millisecond)
}

// save writes a file as editors do.
func (f follower) save(path, text string) {
	f.t.Helper()
	temp := path + ".new"
	if err := errors.Join(os.WriteFile(temp, []byte(text), 0o666), os.Chmod(temp, 0o666), os.Rename(temp, path)); err != nil {
		f.t.Fatal(err)
	}
}

func (f follower) makeDir(name string) {
	f.t.Helper()
	dir := filepath.Join(f.project, name)
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
		f.t.Fatal(err)
	}
}

func median(of []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

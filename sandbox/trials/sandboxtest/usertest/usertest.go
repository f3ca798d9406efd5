//go:build linux

// Package usertest runs the tests of a package again as a user without rights. It is apart
// from sandboxtest because it imports nothing of ours.
package usertest

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stranger is a user that no machine has.
const stranger = 12345

// Options say what Run runs.
type Options struct {
	// Tests choose, as -run does; empty are those that were chosen for this run.
	Tests string
	// MaySkip are tests, or subtests by their whole names, that cannot do without rights on
	// every machine. Others may not skip where GANDER_CHECK is set, and nothing does.
	MaySkip []string
}

// Run runs this package's tests as a user without rights, with the same GANDER variables,
// for as long as this run may take.
func Run(t *testing.T, o Options) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir, err := os.MkdirTemp("", "gander-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cmd := exec.CommandContext(t.Context(), install(t, dir), arguments(t, o)...)
	cmd.Dir = dir
	cmd.Env = append(inherited(), "PATH="+os.Getenv("PATH"), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("as uid %d: %v", stranger, err)
	}
	self, _, _ := strings.Cut(t.Name(), "/")
	for _, complaint := range judge(string(out), append(o.MaySkip, self), os.Getenv("GANDER_CHECK") != "") {
		t.Errorf("as uid %d: %s", stranger, complaint)
	}
}

// install puts this program and its files where the user can read them.
func install(t *testing.T, dir string) (program string) {
	t.Helper()
	program = filepath.Join(dir, "user.test")
	binary, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		syscall.ForkLock.RLock() // a child has what is open, and while that is written to it cannot be run
		err = errors.Join(os.WriteFile(program, binary, 0o755), os.Chown(dir, stranger, stranger))
		syscall.ForkLock.RUnlock()
	}
	if _, statErr := os.Stat("testdata"); err == nil && statErr == nil {
		err = os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func arguments(t *testing.T, o Options) []string {
	timeout := "0"
	if deadline, ok := t.Deadline(); ok { // before this run's own, so that it says what hung
		left := time.Until(deadline)
		timeout = (left - min(left/10, time.Minute)).String()
	}
	args := []string{"-test.v", "-test.timeout=" + timeout}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	if o.Tests == "" {
		o.Tests = flag.Lookup("test.run").Value.String()
	}
	return append(args, "-test.run="+o.Tests, "-test.skip="+flag.Lookup("test.skip").Value.String())
}

// inherited are the variables that say how much the tests do.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return !strings.HasPrefix(v, "GANDER_") && !strings.HasPrefix(v, "GORACE=")
	})
}

var (
	passed  = regexp.MustCompile(`(?m)^--- PASS: `)
	skipped = regexp.MustCompile(`(?m)^ *--- SKIP: (([^/ ]+)\S*)`)
)

// judge finds fault with what tests have said that did not fail.
func judge(out string, maySkip []string, check bool) (complaints []string) {
	if !passed.MatchString(out) {
		complaints = append(complaints, "no test has passed: choose others besides this one")
	}
	for _, m := range skipped.FindAllStringSubmatch(out, -1) {
		if check && !slices.Contains(maySkip, m[1]) && !slices.Contains(maySkip, m[2]) {
			complaints = append(complaints, "skipped: "+strings.TrimSpace(m[0]))
		}
	}
	return complaints
}

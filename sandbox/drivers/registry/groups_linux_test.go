package registry

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestIsGroupOf: a record that somebody has forged has nothing else removed.
func TestIsGroupOf(t *testing.T) {
	for path, want := range map[string]bool{
		"/sys/fs/cgroup/memory/gander-x":             true,
		"/sys/fs/cgroup/user.slice/a.scope/gander-x": true,
		"/sys/fs/cgroup/memory/gander-y":             false,
		"/sys/fs/cgroup/memory/x":                    false,
		"/sys/fs/cgroup/memory":                      false,
		"/sys/fs/cgroup/../../../home/gander-x":      false,
		"/sys/fs/cgroup//gander-x":                   false,
		"/sys/fs/cgroups/gander-x":                   false,
		"/home/person/gander-x":                      false,
		"gander-x":                                   false,
		"":                                           false,
	} {
		if got := isGroupOf(path, "x"); got != want {
			t.Errorf("%q is one: %v", path, got)
		}
	}
	for _, id := range []string{"a/x", "/x", "../x"} {
		if path := "/sys/fs/cgroup/memory/gander-" + id; isGroupOf(path, id) {
			t.Errorf("%q is one of %q", path, id)
		}
	}
}

// TestRemoveGroupOnly: what is no group stays, and so does what a link leads to.
func TestRemoveGroupOnly(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "gander-x")
	if err := os.Mkdir(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := removeGroup(plain); err == nil {
		t.Error("a plain directory was removed")
	}
	group := testGroup(t)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Dir(group), link); err != nil {
		t.Fatal(err)
	}
	if err := removeGroup(filepath.Join(link, filepath.Base(group))); err == nil {
		t.Error("a link was followed")
	}
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	enter := func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0)
	}
	if err := enter(group); err != nil {
		t.Fatal(err)
	}
	if removeGroup(group) == nil {
		t.Error("a group with a process was removed")
	}
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
	if err := removeGroup(group); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(group); !os.IsNotExist(err) {
		t.Errorf("the group is there: %v", err)
	}
}

// testGroup makes a group of the test's own.
func testGroup(t *testing.T) string {
	t.Helper()
	for _, parent := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		dir := filepath.Join(parent, GroupPrefix+"registry-test")
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			t.Cleanup(func() { _ = os.Remove(dir) })
			return dir
		}
		_ = os.Remove(dir)
	}
	if os.Getenv("GANDER_CHECK") == "1" && os.Geteuid() == 0 {
		t.Fatal("no control group can be made")
	}
	t.Skip("no control group can be made")
	return ""
}

package sandboxtest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readOnlyAttacks are ways to change a project, each of which works where it may be written.
// The project has a file "a", a directory "d" and a repository.
func readOnlyAttacks() []string {
	return []string{
		"echo x > b", "echo x >> a", ": > a", "rm a", "rm -r d", "mv a c", "mv d e", "mv a d/a", "mv a /tmp/$$.a", "ln a b", "ln a d/b", "ln -s a b",
		"chmod 777 a", "chmod 777 .", "chmod 700 d", "mkdir b", "rmdir d/empty", "mkfifo b", "touch -d @1 a", "touch -d @1 .", "cp a b", "sed -i s/a/b/ a",
		"git commit -q --allow-empty -m x", "git checkout -q -b b", "git config user.name b", "git stash -q", "git add new", "git tag b", "git gc -q --prune=now",
		`echo x > /proc/self/cwd/b`, `echo x > /proc/$$/root$PWD/b`, `exec 3< . && echo x > /proc/self/fd/3/b`, `exec 3< a && echo x > /proc/self/fd/3`,
		`python3 -c 'import os; os.mkdir("b", dir_fd=os.open(".", os.O_PATH))'`,
		`python3 -c 'import os; os.rename("a", "b", src_dir_fd=os.open(".", 0), dst_dir_fd=os.open("d", 0))'`,
		`python3 -c 'import os; os.fchmod(os.open("a", 0), 0o777)'`, `python3 -c 'import os; os.ftruncate(os.open("a", os.O_RDWR), 0)'`,
		`python3 -c 'import os; os.utime("a", (1, 1))'`, `python3 -c 'import mmap, os; mmap.mmap(os.open("a", os.O_RDWR), 1)[:] = b"x"'`,
		`python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("b")'`,
	}
}

// TestReadOnly tests that nothing inside changes a project that is shown for reading, that it
// can be read, and that the home can be written.
func TestReadOnly(t *testing.T, newDriver NewDriver, owner int) {
	spec := Spec(t, owner)
	spec.ReadOnly = true
	fillReadOnly(t, spec.WorkingDir)
	if owner >= 0 {
		if out, err := exec.Command("chown", "-R", fmt.Sprint(owner), spec.WorkingDir).CombinedOutput(); err != nil {
			t.Fatalf("giving the project away: %v: %s", err, out)
		}
	}
	sb := Create(t, newDriver(t), spec)
	before := snapshot(t, spec.WorkingDir)
	var all strings.Builder
	for _, script := range readOnlyAttacks() {
		fmt.Fprintf(&all, "(%s)\n", script)
	}
	out, errs, _ := Run(t, sb, all.String(), gitEnv()...)
	if diff := cmp.Diff(before, snapshot(t, spec.WorkingDir)); diff != "" {
		t.Errorf("%s%s the project was changed (-before +after):\n%s", out, errs, diff)
	}
	out, errs, st := Run(t, sb, "cat a && ls d && echo mine > $HOME/b && echo mine > /tmp/b && cat $HOME/b", "HOME="+sb.Info().Home)
	if out != "b\nempty\nmine\n" || st.Code != 0 {
		t.Errorf("reading the project and writing elsewhere: %q, %s", out, errs)
	}
}

// TestReadOnlyControls shows that every attack works where the project may be written.
func TestReadOnlyControls(t *testing.T) {
	template, control := t.TempDir(), t.TempDir()
	fillReadOnly(t, template)
	for _, script := range readOnlyAttacks() {
		renew(t, template, control)
		before := snapshot(t, control)
		if out, _ := outside(t, control, script); cmp.Equal(before, snapshot(t, control)) {
			t.Errorf("%s: changes nothing where the project may be written: %s", script, out)
		}
	}
}

func fillReadOnly(t *testing.T, dir string) {
	t.Helper()
	if out, err := outside(t, dir, "git init -q --template= . && mkdir -p d/empty && echo a > a && git add a && git commit -qm one && echo new > new && echo b > a"); err != nil {
		t.Fatalf("making a project: %v: %s", err, out)
	}
}

// snapshot is all of a directory that a program can change: names, kinds, modes, times,
// links and content.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var text []byte
		if info.Mode().IsRegular() {
			text, err = os.ReadFile(path)
		}
		link, _ := os.Readlink(path)
		found[strings.TrimPrefix(path, dir)] = fmt.Sprintf("%v %v %s %q", info.Mode(), info.ModTime(), link, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

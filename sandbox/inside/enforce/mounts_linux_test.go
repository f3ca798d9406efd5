package enforce

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A tree is recognised by another mount of it also where that has the number of one that
// has gone, as the kernel gives them away again at once.
func TestMountNumberAgain(t *testing.T) {
	dir := tempTree(t)
	project, stick, alias := filepath.Join(dir, "project"), filepath.Join(dir, "stick"), filepath.Join(dir, "alias")
	for _, d := range []string{project, stick, alias} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("stick", stick, "tmpfs", 0, ""); err != nil {
		if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
			t.Skip("only root can mount")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(stick, unix.MNT_DETACH)
		_ = unix.Unmount(alias, unix.MNT_DETACH)
	})
	number := func(path string) uint64 {
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st); err != nil {
			t.Fatal(err)
		}
		return st.Mnt_id
	}
	was := number(stick)
	g, err := New(Options{Trees: []Tree{{Path: project, Policy: testPolicy()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.release()
	if err := unix.Unmount(stick, 0); err != nil {
		t.Fatal(err)
	}
	const tries = 50 // others on the machine mount, too
	for range tries {
		if err := unix.Mount(project, alias, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		again := number(alias) == was
		fd, err := unix.Open(alias, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		o, e := g.inspect(fd)
		_ = unix.Close(fd)
		if e != 0 || len(o.trees) != 1 {
			t.Errorf("in %d trees (%v), its number is that of the other mount: %v", len(o.trees), e, again)
		}
		if err := unix.Unmount(alias, 0); err != nil {
			t.Fatal(err)
		}
		if again {
			return
		}
	}
	t.Log("somebody else on the machine has the number now: only other ones were seen")
}

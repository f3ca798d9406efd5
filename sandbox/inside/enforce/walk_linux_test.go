package enforce

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHeld changes what a thread has by a number after that has led to a pipe.
func TestHeld(t *testing.T) {
	pipe := somePipe(t)
	reached := openFor(t, func() (int, error) { return unix.Open("/proc/self/fd/"+decimal(pipe), unix.O_PATH|unix.O_CLOEXEC, 0) })
	other := openFor(t, func() (int, error) { return unix.MemfdCreate("other", unix.MFD_CLOEXEC) })
	for name, test := range map[string]struct{ now, want int }{
		"the pipe":            {pipe, pipe},
		"a copy by O_PATH":    {reached, -1},
		"another file by now": {other, other},
	} {
		t.Run(name, func(t *testing.T) {
			fd := openFor(t, func() (int, error) { return unix.FcntlInt(uintptr(test.now), unix.F_DUPFD_CLOEXEC, 0) })
			dir := openFor(t, func() (int, error) { return openPath("/proc/self/fd") })
			held, e := walkerIn(t, dir).held(decimal(os.Getpid()), decimal(fd), reached)
			if e != 0 && test.want < 0 {
				return
			}
			if e != 0 || test.want < 0 || !sameFile(t, held, test.want) {
				t.Errorf("held is %d, %v, and descriptor %d is to be", held, e, test.want)
			}
			_ = unix.Close(held)
		})
	}
}

// TestHeldWithoutCopies has no process to copy descriptors from, as where the kernel refuses that.
func TestHeldWithoutCopies(t *testing.T) {
	pipe := somePipe(t)
	g := walkerIn(t, -1).t.g
	o, e := g.inspect(pipe)
	if e != 0 {
		t.Fatal(e)
	}
	for name, test := range map[string]struct {
		flags      int
		mount, ino uint64
		want       bool
	}{
		"the pipe":                        {unix.O_WRONLY, o.stat.Mnt_id, o.stat.Ino, true},
		"a copy by O_PATH":                {unix.O_PATH, o.stat.Mnt_id, o.stat.Ino, false},
		"another pipe":                    {unix.O_WRONLY, o.stat.Mnt_id, o.stat.Ino + 1, false},
		"a file of the number, elsewhere": {unix.O_WRONLY, o.stat.Mnt_id + 1, o.stat.Ino, false},
	} {
		t.Run(name, func(t *testing.T) {
			process := t.TempDir()
			for _, sub := range []string{"fd", "fdinfo"} {
				if err := os.Mkdir(filepath.Join(process, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			info := fmt.Sprintf("pos:\t0\nflags:\t0%o\nmnt_id:\t%d\nino:\t%d\n", test.flags, test.mount, test.ino)
			if err := os.WriteFile(filepath.Join(process, "fdinfo/7"), []byte(info), 0o644); err != nil {
				t.Fatal(err)
			}
			dir := openFor(t, func() (int, error) { return openPath(filepath.Join(process, "fd")) })
			if fd, e := walkerIn(t, dir).held("0", "7", pipe); (fd == pipe && e == 0) != test.want {
				t.Errorf("held is %d, %v, and the pipe %d is to be %v", fd, e, pipe, test.want)
			}
		})
	}
}

func walkerIn(t *testing.T, dir int) *walker {
	t.Helper()
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.release)
	return &walker{t: &task{g: g}, dir: dir}
}

// somePipe is an end of one.
func somePipe(t *testing.T) int {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(ends[0]), unix.Close(ends[1]) })
	return ends[1]
}

// openFor opens a descriptor that a test has.
func openFor(t *testing.T, open func() (int, error)) int {
	t.Helper()
	fd, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func sameFile(t *testing.T, a, b int) bool {
	t.Helper()
	var is, other unix.Stat_t
	if err := unix.Fstat(a, &is); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fstat(b, &other); err != nil {
		t.Fatal(err)
	}
	return is.Dev == other.Dev && is.Ino == other.Ino
}

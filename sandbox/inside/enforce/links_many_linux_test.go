package enforce

import (
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fill makes so many entries in a directory that is so many long names deep.
func fill(t *testing.T, dir string, deep, many int, name string, make func(parent int, name string) error) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	long := strings.Repeat("d", 250)
	for range deep {
		var next int
		if err == nil {
			err = unix.Mkdirat(at, long, 0o755)
		}
		if err == nil {
			next, err = unix.Openat(at, long, unix.O_PATH|unix.O_DIRECTORY, 0)
			_ = unix.Close(at)
			at = next
		}
	}
	for i := 0; i < many && err == nil; i++ {
		err = make(at, name+strconv.Itoa(i))
	}
	_ = unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
}

// most is how much more memory was in use than at first while something was done.
func most(do func()) (bytes uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	now := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	first := now()
	over := make(chan struct{})
	go func() {
		defer close(over)
		do()
	}()
	for {
		select {
		case <-over:
			return bytes
		case <-time.After(2 * time.Millisecond):
			bytes = max(bytes, now()-min(first, now()))
		}
	}
}

// What looks for closed files has no bound of memory where the sandbox has one, which makes
// as many entries as it likes.
func TestLinksAmongMany(t *testing.T) {
	const mib = 1 << 20
	mkdir := func(parent int, name string) error { return unix.Mkdirat(parent, name, 0o755) }
	mknod := func(parent int, name string) error { return unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0) }
	for name, tt := range map[string]struct {
		deep, many int
		name       string
		make       func(int, string) error
	}{
		"directories at the end of a long path": {60, 5000, "", mkdir},
		"files with long names":                 {0, 60_000, strings.Repeat("f", 240), mknod},
	} {
		t.Run(name, func(t *testing.T) {
			x, twin, plain := indexOf(t)
			fill(t, x.tree.path, tt.deep, tt.many, tt.name, tt.make)
			used := most(func() { expectAccess(t, "a closed file", x, twin, None) })
			if used > 12*mib {
				t.Errorf("%d MiB were needed", used/mib)
			}
			expectAccess(t, "an open file", x, plain, Full)
		})
	}
}

// So does what looks whether a directory may be moved.
func TestMovingAmongMany(t *testing.T) {
	const mib = 1 << 20
	x, _, _ := indexOf(t)
	fill(t, filepath.Join(x.tree.path, "held"), 0, 60_000, strings.Repeat("f", 240), func(parent int, name string) error {
		return unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
	})
	used := most(func() {
		if !x.tree.holdsRestricted("held") {
			t.Error("a closed file was not found")
		}
	})
	if used > 12*mib {
		t.Errorf("%d MiB were needed", used/mib)
	}
}

func TestPlace(t *testing.T) {
	top := &place{nil, "a/b"}
	for want, p := range map[string]*place{"": nil, "a/b": top, "a/b/c": {top, "c"}, "d": {nil, "d"}} {
		if got := p.rel(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

package enforce

import (
	"net"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBoundHere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var o object
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS, &o.stat); err != nil {
		t.Fatal(err)
	}
	if here, err := boundHere(&o); err != nil || !here {
		t.Errorf("own socket: %v, %v", here, err)
	}
	other := o
	other.stat.Ino++
	if here, err := boundHere(&other); err != nil || here {
		t.Errorf("another file: %v, %v", here, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends in its own namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Log("no network namespace can be made here:", err)
			return
		}
		if here, err := boundHere(&o); err != nil || here {
			t.Errorf("a socket of another network namespace: %v, %v", here, err)
		}
	}()
	<-done
}

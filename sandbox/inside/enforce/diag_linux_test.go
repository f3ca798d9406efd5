package enforce

import (
	"errors"
	"net"
	"os"
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
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.release()
	var o object
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &o.stat); err != nil {
		t.Fatal(err)
	}
	if here, err := g.boundHere(&o); err != nil || !here {
		t.Errorf("own socket: %v, %v", here, err)
	}
	other := o
	other.stat.Ino++
	if here, err := g.boundHere(&other); err != nil || here {
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
		if here, err := g.boundHere(&o); err != nil || here {
			t.Errorf("a socket of another network namespace: %v, %v", here, err)
		}
	}()
	<-done
}

// On an overlay of two file systems, whose files say another device of themselves than it
// has, programs inside reach each other by a socket, and nobody outside.
func TestSocketsOnOverlay(t *testing.T) {
	requireSupport(t)
	base := tempTree(t)
	var dirs [4]string
	for i, name := range []string{"lower", "upper", "upper/work", "upper/files"} {
		dirs[i] = filepath.Join(base, name)
		if err := os.Mkdir(dirs[i], 0o777); err != nil {
			t.Fatal(err)
		}
		if i > 1 {
			continue
		}
		if err := unix.Mount(name, dirs[i], "tmpfs", 0, "mode=777"); err != nil {
			if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
				t.Skip("only root can mount")
			}
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dirs[i], unix.MNT_DETACH) })
	}
	outside := make(chan string, 1)
	for use, works := range map[string]bool{"unix sockets": true, "talking outside": false} {
		t.Run(use, func(t *testing.T) {
			dir, _ := stage(t)
			options := "xino=off,lowerdir=" + dirs[0] + ",upperdir=" + dirs[3] + ",workdir=" + dirs[2]
			if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
				if os.Getenv("GANDER_CHECK") != "" {
					t.Fatal(err)
				}
				t.Skip("no overlay can be made here:", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // when the Guard has ended
			l, err := net.Listen("unix", filepath.Join(dir, "helper"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() { // ends with the listener
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					said := make([]byte, 1)
					if n, _ := c.Read(said); n > 0 {
						outside <- string(said)
					}
					_ = c.Close()
				}
			}()
			var r report
			s := start(t, dir, testPolicy(), placement{ownNetwork: true}, "use", use)
			s.run(t, &r)
			if r.Leak != works || !works && (s.denied() == 0 || !s.denials[0].Unheard) {
				t.Errorf("connected: %v, want %v: %s", r.Leak, works, r.Said)
			}
		})
	}
	if len(outside) > 0 {
		t.Error("the listener outside was told something")
	}
}

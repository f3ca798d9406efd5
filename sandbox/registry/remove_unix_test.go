//go:build unix

package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/sandbox/registry"
)

// A directory is removed however deep it is, with a few files open, and when its
// directories are closed to their owner further down than a path reaches.
func TestRemoveDirOfAnyDepth(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 100)
	for range 600 {
		err := errors.Join(at.Mkdir(name, 0o700), at.Mkdir("0", 0o700), at.WriteFile("file", nil, 0o400), at.Symlink(filepath.Dir(outside), "link"))
		below, err2 := at.OpenRoot(name)
		if err := errors.Join(err, err2, at.Chmod(".", 0o500), at.Close()); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err = registry.RemoveDir(dir)
	if again := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); again != nil {
		t.Fatal(again)
	}
	if _, left := os.Lstat(dir); err != nil || !errors.Is(left, os.ErrNotExist) {
		t.Errorf("%.300v; %v", err, left)
		_ = registry.RemoveDir(dir)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

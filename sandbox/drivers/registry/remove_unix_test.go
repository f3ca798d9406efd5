//go:build unix

package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/sandbox/drivers/registry"
)

// A directory is removed, or emptied, however deep it is, with a few files open, and when
// its directories are closed to their owner further down than a path reaches.
func TestRemovalAtAnyDepth(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"removed": registry.RemoveDir,
		"emptied": func(dir string) error {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			return errors.Join(registry.Empty(root), root.Close(), os.Remove(dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "home")
			outside := filepath.Join(t.TempDir(), "outside")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(outside, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			dig(t, dir, filepath.Dir(outside))
			err := withFewFiles(t, func() error { return remove(dir) })
			if _, left := os.Lstat(dir); err != nil || !errors.Is(left, os.ErrNotExist) {
				t.Errorf("%.300v; %v", err, left)
				_ = registry.RemoveDir(dir)
			}
			if _, err := os.Stat(outside); err != nil {
				t.Error(err)
			}
		})
	}
}

// dig makes directories in a directory, each in the one before, which all but the first may
// not be written to, with a link that leads to another.
func dig(t *testing.T, dir, to string) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	name, mode := strings.Repeat("d", 100), os.FileMode(0o700)
	for range 600 {
		err := errors.Join(at.Mkdir(name, 0o700), at.Mkdir("0", 0o700), at.WriteFile("file", nil, 0o400), at.Symlink(to, "link"))
		below, err2 := at.OpenRoot(name)
		if err := errors.Join(err, err2, at.Chmod(".", mode), at.Close()); err != nil {
			t.Fatal(err)
		}
		at, mode = below, 0o500
	}
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
}

// withFewFiles calls do when this process may have a few files open at a time.
func withFewFiles(t *testing.T, do func() error) error {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}()
	return do()
}

//go:build unix

package controlplane

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// A workspace is emptied before a snapshot takes its place, whatever the agent has made
// in it: half of it would be gone else, and nothing restored.
func TestEmptyOfAnyDepth(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at, err := root.OpenRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	for range 600 {
		err := errors.Join(at.Mkdir("d", 0o700), at.WriteFile("file", nil, 0o400))
		below, err2 := at.OpenRoot("d")
		if err := errors.Join(err, err2, at.Chmod(".", 0o500), at.Close()); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	if err := errors.Join(at.Close(), root.Chmod(".", 0o700)); err != nil {
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
	err = empty(root)
	if again := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); again != nil {
		t.Fatal(again)
	}
	if err != nil {
		t.Errorf("%.300v", err)
	}
	if _, err := root.Lstat("d"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}

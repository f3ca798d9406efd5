//go:build unix

package files

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// versioned are rules that hide one name, and can change.
type versioned struct {
	name    string
	version uint64
	asked   int
}

func (v *versioned) Ignored(abs string, _ bool) bool {
	v.asked++
	return filepath.Base(abs) == v.name
}
func (v *versioned) Version() uint64 { return v.version }

func TestTwinsAreSearchedWhenSomethingChanged(t *testing.T) {
	dir := t.TempDir()
	names := map[string]string{"a": filepath.Join(dir, "a"), "b": filepath.Join(dir, "b")}
	if err := errors.Join(os.WriteFile(names["a"], nil, 0o644), os.Link(names["a"], names["b"])); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(names["b"])
	if err != nil {
		t.Fatal(err)
	}
	rules := &versioned{name: "other"}
	tw := &twins{top: dir, rules: rules}
	expect := func(what string, hidden, searched bool) {
		t.Helper()
		rules.asked = 0
		if got := tw.hides(info); got != hidden || rules.asked > 0 != searched {
			t.Errorf("%s: hidden %v, and searched: %v", what, got, rules.asked > 0)
		}
	}
	expect("at first", false, true)
	tw.at = time.Now().Add(time.Hour) // long after the file last changed
	expect("when nothing changed", false, false)
	rules.name, rules.version = "a", 1
	expect("when the rules changed", true, true)
	tw.at = time.Now().Add(-time.Hour)
	expect("when the file was linked since", true, true)

	s := &Space{o: Options{WorkingDir: dir}, twins: tw}
	if _, err := s.openReal(place{real: names["b"]}); err == nil {
		t.Error("it was opened by its other name")
	}
	if err := s.writeReal(place{real: names["b"]}, nil, 0o644); !errors.Is(err, errMoved) {
		t.Errorf("it was written by its other name: %v", err)
	}
}

// The file stays the same one, for those who may not make another.
func TestOverwrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("long before"), 0o640); err != nil {
		t.Fatal(err)
	}
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	old, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := overwrite(dir, "f", []byte("new"), old); err != nil {
		t.Fatal(err)
	}
	now, err := os.Lstat(name)
	if data, _ := os.ReadFile(name); err != nil || !os.SameFile(old, now) || now.Mode() != old.Mode() || string(data) != "new" {
		t.Errorf("%q, %v, %v", data, now, err)
	}
	if err := errors.Join(os.WriteFile(name+"2", nil, 0o644), os.Rename(name+"2", name)); err != nil {
		t.Fatal(err)
	}
	if err := overwrite(dir, "f", []byte("newer"), old); !errors.Is(err, errMoved) {
		t.Errorf("another file was overwritten: %v", err)
	}
}

// What was decided about a path holds for nothing that the path leads to later:
// here a directory on the way became a link after it was looked at.
func TestAPathThatWasReplacedIsNotUsed(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(top, "hidden", "sub"), 0o755), os.WriteFile(filepath.Join(top, "hidden", "f"), nil, 0o644),
		os.Symlink("hidden", filepath.Join(top, "d")), os.Symlink("hidden/f", filepath.Join(top, "f"))); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{WorkingDir: top})
	if err != nil {
		t.Fatal(err)
	}
	in := func(rel string) string { return filepath.Join(top, rel) }
	if _, err := s.openReal(place{real: in("d/f")}); !errors.Is(err, errMoved) {
		t.Errorf("opening: %v", err)
	}
	if _, err := s.openReal(place{real: in("f")}); err == nil {
		t.Error("opening a link: no error")
	}
	for _, rel := range []string{"d/f", "d/new", "d/sub/new", "d/made/new", "d/made/deep/new"} {
		if err := s.writeReal(place{real: in(rel)}, []byte("text"), 0o644); !errors.Is(err, errMoved) {
			t.Errorf("writing %s: %v", rel, err)
		}
	}
	if err := s.writeReal(place{real: in("f")}, []byte("text"), 0o644); !errors.Is(err, errMoved) {
		t.Errorf("writing a link: %v", err)
	}
	if data, err := os.ReadFile(in("hidden/f")); err != nil || len(data) != 0 {
		t.Errorf("the hidden file says %q, %v", data, err)
	}
	if _, err := os.Lstat(in("hidden/made")); err == nil {
		t.Error("a hidden directory was made")
	}
	if real, err := s.openReal(place{real: in("hidden/f")}); err != nil {
		t.Error("a path without links: ", err)
	} else {
		real.Close()
	}
}

// A file that can only be written in place keeps its content when the new one does not
// fit, as on a full disk: here a file may not grow beyond a limit.
func TestOverwriteThatDoesNotFit(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	path := filepath.Join(t.TempDir(), "f")
	was := bytes.Repeat([]byte("old content\n"), 500)
	if err := os.WriteFile(path, was, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	old, err := dir.Lstat("f")
	if err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limited := before
	limited.Cur = 8000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		t.Fatal(err)
	}
	err = overwrite(dir, "f", bytes.Repeat([]byte("new content\n"), 1000), old)
	if back := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); back != nil {
		t.Fatal(back)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("what does not fit: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, was) {
		t.Errorf("%d bytes are left, %q…, %v", len(now), now[:min(len(now), 12)], err)
	}
	if err := overwrite(dir, "f", []byte("short"), old); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != "short" {
		t.Errorf("a shorter one: %q, %v", now, err)
	}
}

package ignore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Without looking now and then, only events tell of changes.
func TestEventsTellOfChanges(t *testing.T) {
	w := newWatcher(nil, 0, time.Hour, fsnotify.NewWatcher)
	defer w.Close()
	root, other := t.TempDir(), t.TempDir()
	changed := make(chan struct{}, 100)
	s, err := NewSet(SetOptions{Root: root, Global: filepath.Join(other, "mine"), Watcher: w, OnChange: func() { changed <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil { // as editors save
			t.Fatal(err)
		}
	}
	sub := filepath.Join(root, "sub", FileName)
	write(sub, "x\n")
	s.Ignored(filepath.Join(root, "sub", "y"), false) // makes the directory known
	for i, step := range []struct{ file, rule string }{
		{filepath.Join(root, FileName), "a"}, {filepath.Join(root, FileName), "b"}, {filepath.Join(other, "mine"), "c"}, {sub, "d"}, {sub, "e"},
	} {
		write(step.file, step.rule+"\n")
		deadline := time.After(30 * time.Second)
		for !s.Matcher().Ignored("sub/"+step.rule, false) {
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("step %d: nobody told of a change of %s", i, step.file)
			}
		}
	}
}

// Where the system gives no watcher any more, changes are found by looking, and so they
// are at first, when none is asked for.
func TestNoWatcherLeft(t *testing.T) {
	none := func() (*fsnotify.Watcher, error) { return nil, errors.New("too many open files") }
	never := func() (*fsnotify.Watcher, error) {
		t.Error("a young watcher takes one of the system's")
		return none()
	}
	testLooking(t, newWatcher(nil, 0, time.Hour, none))
	testLooking(t, newWatcher(nil, time.Hour, time.Hour, never))
}

func testLooking(t *testing.T, w *Watcher) {
	t.Helper()
	root := t.TempDir()
	changed := make(chan struct{}, 100)
	s, err := NewSet(SetOptions{Root: root, Watcher: w, OnChange: func() { changed <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, FileName), []byte("*.pem\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody is told of a change")
	}
	if err := errors.Join(s.Close(), w.Close()); err != nil {
		t.Error(err)
	}
}

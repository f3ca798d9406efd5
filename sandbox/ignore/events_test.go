package ignore

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Without looking now and then, only events tell of changes.
func TestEventsTellOfChanges(t *testing.T) {
	w, err := newWatcher(nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
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

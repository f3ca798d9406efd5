package ignore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gander.dev/gander/sandbox/rules/ignore"
)

func TestWatcherTellsOfChanges(t *testing.T) {
	w := ignore.NewWatcher(nil)
	defer w.Close()
	p := newProject(t, "sub/.gooseignore", "*.pem\n")
	changed := make(chan struct{}, 100)
	p.open(ignore.SetOptions{Watcher: w, OnChange: func() { changed <- struct{}{} }})
	defer p.Close()
	p.hides("sub/x.pem !sub/x.key") // makes the directory known
	<-changed
	wait := func(rel string) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for !p.Matcher().Ignored(rel, false) {
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("%s is not hidden by the rules that are known", rel)
			}
		}
	}
	p.write(".gooseignore", "*.key\n")
	wait("a.key")
	p.write("GLOBAL", "*.txt\n")
	wait("a.txt")
	p.write("sub/.gooseignore", "*.pem\n*.new\n")
	wait("sub/a.new")
	tmp := p.path("tmp")
	if err := os.WriteFile(tmp, []byte("*.renamed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, p.path(".gooseignore")); err != nil {
		t.Fatal(err)
	}
	wait("a.renamed")
	// The directory itself is replaced: found by looking now and then.
	if err := os.Rename(p.root, filepath.Join(filepath.Dir(p.root), "old")); err != nil {
		t.Fatal(err)
	}
	p.write(".gooseignore", "*.again\n")
	wait("a.again")
}

func TestWatcherForgets(t *testing.T) {
	w := ignore.NewWatcher(nil)
	a, b := newProject(t), newProject(t)
	for _, p := range []*project{a, b} {
		p.open(ignore.SetOptions{Watcher: w})
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		p.write(".gooseignore", "x\n")
		p.hides("x") // it still looks by itself
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

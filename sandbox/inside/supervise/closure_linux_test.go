package supervise

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/enforce"
	"gander.dev/gander/sandbox/rules/ignore"
)

// The person's own rules hold, and rules files are for reading.
func TestClosureKeepsOwnRules(t *testing.T) {
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &linux{log: slog.New(slog.DiscardHandler), pid: os.Getpid()}
	c, err := l.newClosure(Setup{Rules: &Rules{Trees: []string{tree}, Own: "*.mine\n", HasOwn: true}}, func(sandbox.Denial) {})
	if err != nil {
		if os.Getenv("GANDER_CHECK") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	defer func() {
		_ = c.watcher.Close()
		c.guard.Close()
	}()
	now, err := c.newPolicy(tree, treeBounds{own: "."}, l.log)
	if err != nil {
		t.Fatal(err)
	}
	for rel, want := range map[string]enforce.Access{
		"a.mine": enforce.None, "sub/b.mine": enforce.None, "open": enforce.Full, ".env": enforce.Full,
		".gooseignore": enforce.ReadOnly, "sub/.gooseignore": enforce.ReadOnly,
	} {
		if got := now().Access(rel, false); got != want {
			t.Errorf("%s: %v, want %v", rel, got, want)
		}
	}
}

// Of the objects that git inside lacks the first denial is told, and their directories can
// be listed.
func TestHiddenObjects(t *testing.T) {
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	if err := os.MkdirAll(filepath.Join(tree, ".git/objects"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := &closure{gitStore: store, own: &ignore.Text{}, watcher: ignore.NewWatcher(slog.New(slog.DiscardHandler))}
	defer func() { _ = c.watcher.Close() }()
	if _, err := c.newPolicy(tree, treeBounds{own: "."}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	c.guarded[0].root = true
	if err := c.openGit(openGitParams{Rules: c.closeGit(), Stores: map[string]string{".git/objects": "1.0.alternates"}}); err != nil {
		t.Fatal(err)
	}
	for rel, want := range map[string]enforce.Access{"1.0.alternates": enforce.ReadOnly, "1/0/pack/a.pack": enforce.ReadOnly, "1.closed/ab/cdef": enforce.None} {
		if got := (storePolicy{c}).Access(rel, false); got != want {
			t.Errorf("%s: %v, want %v", rel, got, want)
		}
	}
	if got := (storePolicy{c}).Access("1.closed/ab", true); got != enforce.ReadOnly {
		t.Errorf("a directory: %v", got)
	}
	for i, name := range []string{"1.closed/ab/cdef", "1.closed/ab/cdee"} {
		if d, tell := c.explain(enforce.Denial{Operation: "open", Path: filepath.Join(store, name)}); d.Rule != sandbox.HiddenByGit || tell != (i == 0) {
			t.Errorf("denial %d: %+v, told: %v", i, d, tell)
		}
	}
}

// A socket of somebody outside is not said to be closed by the project's rules.
func TestUnheardSocket(t *testing.T) {
	c := &closure{}
	for _, path := range []string{"/project/helper", "@helper"} {
		if d, tell := c.explain(enforce.Denial{Operation: "connect", Path: path, Unheard: true}); d.Rule != sandbox.DeniedUnheard || !tell {
			t.Errorf("%s: %+v, told: %v", path, d, tell)
		}
	}
}

// What is permitted of an object is for the file that was made, and not for another that was
// there before; what is known to be harmless is not asked about its file.
func TestObjectsByFile(t *testing.T) {
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(tree, ".git/objects/pack")
	if err := os.MkdirAll(objects, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(objects, "old.pack"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := &closure{own: &ignore.Text{}, watcher: ignore.NewWatcher(slog.New(slog.DiscardHandler))}
	defer func() { _ = c.watcher.Close() }()
	now, err := c.newPolicy(tree, treeBounds{own: "."}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	rules := c.closeGit()
	wants := func(old bool) {
		t.Helper()
		for rel, want := range map[string]bool{".git/objects/pack/old.pack": old, ".git/objects/pack/new.pack": true, "open": false, ".git/HEAD": false} {
			if got := now().(enforce.Witness).ByFile(rel); got != want {
				t.Errorf("%s: %v, want %v", rel, got, want)
			}
		}
	}
	wants(true)
	if err := c.openGit(openGitParams{Rules: rules}); err != nil {
		t.Fatal(err)
	}
	wants(false)
}

// One path and operation is passed on once, and all together a bounded number.
func TestDenialsAreBounded(t *testing.T) {
	told := make(chan sandbox.Denial, 1000)
	n := newDenials(func(d sandbox.Denial) { told <- d })
	for i := range 500 {
		n.add(sandbox.Denial{Operation: "open", Path: filepath.Join("/p", string(rune('a'+i%100))), PID: i})
	}
	for range denialsInAll {
		<-told
	}
	select {
	case d := <-told:
		t.Errorf("more than %d were told: %+v", denialsInAll, d)
	default:
	}
}

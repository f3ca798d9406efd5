//go:build unix

package caches

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/project"
)

const bound = 1 << 20

// options are for caches of a new project.
func options(t *testing.T, stateDir string) Options {
	t.Helper()
	p, err := project.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Options{StateDir: stateDir, Bound: bound, Driver: "local", Project: p}
}

// opened opens caches for the time of a test.
func opened(t *testing.T, o Options) *Caches {
	t.Helper()
	c, err := Open(o)
	if err != nil || c == nil {
		t.Fatalf("opening caches: %v, %v", c, err)
	}
	t.Cleanup(c.Close)
	return c
}

func put(t *testing.T, path string, bytes int) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestWhoShares opens caches for sandboxes that differ in one thing each.
func TestWhoShares(t *testing.T) {
	o := options(t, t.TempDir())
	first := opened(t, o)
	for what, change := range map[string]func(*Options){
		"nothing": func(*Options) {}, "project": func(o *Options) { o.Project = options(t, "").Project }, "driver": func(o *Options) { o.Driver = "docker" },
		"image": func(o *Options) { o.Image = "x" }, "user": func(o *Options) { o.Project.Owner.UID++ }, "group": func(o *Options) { o.Project.Owner.GID++ },
	} {
		other := o
		change(&other)
		if same := opened(t, other).Dir() == first.Dir(); same != (what == "nothing") {
			t.Errorf("another %s: the caches are the same: %v", what, same)
		}
	}
	moved := o.Project.Path + "-moved" // another directory at the same path is another project
	t.Cleanup(func() { _ = os.RemoveAll(moved) })
	if err := os.Rename(o.Project.Path, moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.Project.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	if opened(t, o).Dir() == first.Dir() {
		t.Error("another directory at the project's path has its caches")
	}
}

func TestNone(t *testing.T) {
	o := options(t, t.TempDir())
	o.Bound = 0
	if c, err := Open(o); c != nil || err != nil {
		t.Errorf("without a bound: %v, %v", c, err)
	}
	spec := sandbox.Spec{Home: t.TempDir(), Caches: bound, HomeLinks: map[string]string{".agents/skills/x": "/skills/x"}}
	o.Bound = bound
	c, err := Fill(spec, "/home/x", o)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	npm := filepath.Join(spec.Home, ".npm")
	if target, err := os.Readlink(npm); err != nil || target != Inside+"/npm" {
		t.Errorf("~/.npm leads to %q, %v", target, err)
	}
	if target, err := os.Readlink(filepath.Join(spec.Home, ".agents/skills/x")); err != nil || target != "/skills/x" {
		t.Errorf("the Spec's own link leads to %q, %v", target, err)
	}
	spec.Caches = 0 // the home is a session's, which goes on without caches
	if _, err := Fill(spec, "/home/x", o); err != nil || isThere(npm) {
		t.Errorf("without caches a link is left (%v)", err)
	}
}

// TestHostileCaches has a sandbox put something else in the place of directories, and looks for what
// the host does with it.
func TestHostileCaches(t *testing.T) {
	o, outside := options(t, t.TempDir()), t.TempDir()
	put(t, filepath.Join(outside, "large"), 100*bound)
	c := opened(t, o)
	for i, name := range []string{"npm", "maven", "uv"} {
		at := filepath.Join(c.Dir(), name)
		err := os.Remove(at)
		switch {
		case err != nil:
		case i == 0:
			err = os.Symlink(outside, at)
		case i == 1:
			err = syscall.Mkfifo(at, 0o600)
		default:
			err = os.WriteFile(at, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(c.Dir(), "link")); err != nil {
		t.Fatal(err)
	}
	if bytes, _, whole := measure(c.Dir(), time.Minute); !whole || bytes > bound {
		t.Errorf("measured %d bytes (all: %v)", bytes, whole)
	}
	c.Close()
	c = opened(t, o)
	for _, r := range table {
		if info, err := os.Lstat(filepath.Join(c.Dir(), r.name)); err != nil || !info.IsDir() {
			t.Errorf("%s is %v (%v), want a directory", r.name, info, err)
		}
	}
	c.Close()
	if _, err := Tidy(o.StateDir, bound, true); err != nil || isThere(c.Dir()) || !isThere(filepath.Join(outside, "large")) {
		t.Errorf("clearing away: %v; caches are there: %v", err, isThere(c.Dir()))
	}
}

// TestBound fills caches and opens them again, while another sandbox uses them and after that.
func TestBound(t *testing.T) {
	o := options(t, t.TempDir())
	c := opened(t, o)
	file := filepath.Join(c.Dir(), "npm", "x")
	put(t, file, bound)
	c.Close()
	c = opened(t, o)
	if !isThere(file) {
		t.Fatal("caches within their bound went")
	}
	put(t, filepath.Join(c.Dir(), "npm", "y"), bound)
	other := opened(t, o)
	if r, ok := c.read(); !ok || c.write(record{key: r.key}) != nil { // never measured, so that it is due
		t.Fatal("the caches have no record")
	}
	c.Close()
	if r, _ := other.read(); r.Bytes < 2*bound {
		t.Errorf("measured %d bytes, want %d", r.Bytes, 2*bound)
	}
	third := opened(t, o)
	if !isThere(file) {
		t.Error("caches that a sandbox uses went")
	}
	other.Close()
	third.Close()
	if opened(t, o); isThere(file) {
		t.Error("caches with more than their bound stay")
	}
}

func TestTidy(t *testing.T) {
	stateDir := t.TempDir()
	kept, used, old, gone, large := options(t, stateDir), options(t, stateDir), options(t, stateDir), options(t, stateDir), options(t, stateDir)
	inUse := opened(t, used)
	for i, o := range []Options{kept, old, gone, large} {
		c := opened(t, o)
		dir := filepath.Join(c.Dir(), "go-mod", "module")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "x"), 10)
		if i == 3 {
			put(t, filepath.Join(dir, "y"), 2*bound)
		}
		if err := os.Chmod(dir, 0o500); err != nil { // as Go's modules are
			t.Fatal(err)
		}
		c.Close()
		if i == 1 {
			month := time.Now().Add(-unused - time.Hour)
			if err := os.Chtimes(filepath.Join(c.dir, recordFile), month, month); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, o := range []Options{used, gone} {
		if err := os.RemoveAll(o.Project.Path); err != nil {
			t.Fatal(err)
		}
	}
	names := func(all ...Options) string {
		var paths []string
		for _, o := range all {
			paths = append(paths, o.Project.Path)
		}
		slices.Sort(paths)
		return strings.Join(paths, " ")
	}
	for _, tt := range []struct {
		all  bool
		want string
	}{{false, names(old, gone, large)}, {false, ""}, {true, names(kept)}} {
		got, err := Tidy(stateDir, bound, tt.all)
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("removed %v (%v), want %s", got, err, tt.want)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(stateDir, "caches", trashDir)); len(left) > 0 || !isThere(inUse.Dir()) {
		t.Errorf("%d are left in the trash; those in use are there: %v", len(left), isThere(inUse.Dir()))
	}
}

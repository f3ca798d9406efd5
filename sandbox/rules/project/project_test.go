//go:build unix

package project_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/sandbox/rules/project"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	state := filepath.Join(dir, "project", ".gander")
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	toRoot := filepath.Join(dir, "root")
	if err := os.Symlink("/", toRoot); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dir, private, want string }{
		{"/", "", "part of the system"},
		{"/usr", "", "part of the system"},
		{"/tmp", "", "part of the system"},
		{"/dev/shm/..", "", "part of the system"},
		{toRoot, "", "part of the system"},
		{file, "", "not a directory"},
		{"relative", "", "no such file"},
		{filepath.Join(dir, "none"), "", "no such file"},
		{filepath.Dir(state), state, "contains gander's own state"},
	} {
		if _, err := project.Open(tt.dir, tt.private); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Open(%s): %v, want an error with %q", tt.dir, err, tt.want)
		}
	}
}

func TestOpenSymlink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, name := filepath.Join(dir, "real"), filepath.Join(dir, "name")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, name); err != nil {
		t.Fatal(err)
	}
	p, err := project.Open(name+"/", filepath.Join(dir, "elsewhere"))
	if err != nil || p.Path != real || p.Name != name {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestOwner(t *testing.T) {
	dir := t.TempDir()
	p, err := project.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if p.Owner.UID != os.Geteuid() || len(p.Owner.Warnings) > 0 {
			t.Errorf("one's own project: %+v", p.Owner)
		}
		return
	}
	if p.Owner.UID != 0 || len(p.Owner.Warnings) != 1 || !strings.Contains(p.Owner.Warnings[0], "owned by root") {
		t.Errorf("root's project: %+v", p.Owner)
	}
	const user, group = 12345, 12346
	if err := os.Chown(dir, user, group); err != nil {
		t.Fatal(err)
	}
	if p, err = project.Open(dir); err != nil || p.Owner.UID != user || p.Owner.GID != group || len(p.Owner.Warnings) > 0 {
		t.Errorf("a user's project: %+v %v", p.Owner, err)
	}
}

func TestOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	home := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	for _, f := range []string{outside, filepath.Join(home, "inside")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	linked := filepath.Join(home, "linked")
	if err := os.Link(outside, linked); err != nil {
		t.Fatal(err)
	}
	if err := (project.Owner{UID: 12345, GID: 12345}).Own(home); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{home: 12345, filepath.Join(home, "inside"): 12345, linked: 0} {
		p, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := uid(t, p); got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/ab", "/a", false},
		{"/a", "/a/b", false},
		{"/a", "/", true},
	} {
		if got := project.Below(tt.path, tt.dir); got != tt.want {
			t.Errorf("Below(%s, %s) = %v", tt.path, tt.dir, got)
		}
	}
}

func uid(t *testing.T, info fs.FileInfo) int {
	t.Helper()
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no owner is known")
	}
	return int(st.Uid)
}

package files_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadDirLeavesOutWhatIsHidden(t *testing.T) {
	y := newYard(t)
	s := y.space()
	for dir, want := range map[string]string{".": ".gooseignore ok sub", "sub": "ok", "..": "home other project"} {
		entries, err := s.ReadDir(dir)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s has %q, %v, want %q", dir, got, err, want)
		}
	}
	if _, err := s.ReadDir("vault"); verdict(err) != "restricted" {
		t.Errorf("a hidden directory: %v", err)
	}
}

// forest is a larger tree with rules on several levels.
func forest(y yard) {
	y.write("project/.gooseignore", "*.key\nhidden/\n/d1/d2/f3\n")
	y.write("project/d2/.gooseignore", "!f1.key\nf2\n")
	for i := range 4 {
		for j := range 4 {
			for k := range 6 {
				y.write(fmt.Sprintf("project/d%d/d%d/f%d", i, j, k), "")
			}
			for _, name := range []string{"f1.key", "hidden/x", ".git/x"} {
				y.write(fmt.Sprintf("project/d%d/d%d/%s", i, j, name), "")
			}
		}
	}
}

func TestWalkIsWalkDirWithoutWhatIsHidden(t *testing.T) {
	y := newYard(t)
	forest(y)
	s := y.space()
	var want []string
	err := filepath.WalkDir(y.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != y.dir && (s.Check(path) != nil || d.Name() == ".git") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		want = append(want, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = s.Walk(t.Context(), ".", func(path string, _ fs.DirEntry) error {
		got = append(got, path)
		return nil
	})
	if err != nil || !slices.Equal(got, want) || len(got) < 100 {
		t.Errorf("%v\n%d: %q\n%d: %q", err, len(got), got, len(want), want)
	}
}

func TestWalkEndsEarly(t *testing.T) {
	y := newYard(t)
	forest(y)
	s := y.space()
	boom := errors.New("boom")
	ctx, cancel := context.WithCancel(t.Context())
	for _, tt := range []struct {
		name, at string // where something happens
		what     func() error
		err      error
		last     string // what was visited last
	}{
		{"nothing happens", "", nil, nil, "project/vault/a"},
		{"a directory is skipped", "/vault", func() error { return fs.SkipDir }, nil, "project/vault"},
		{"the rest of a directory is skipped", "/project/ok", func() error { return fs.SkipDir }, nil, "project/ok"},
		{"all is skipped", "/d1/d1", func() error { return fs.SkipAll }, nil, "project/d1/d1"},
		{"an error", "/d1/d1", func() error { return boom }, boom, "project/d1/d1"},
		{"the context ends", "/d1/d1", func() error { cancel(); return nil }, context.Canceled, "project/d1/d1"},
	} {
		last := ""
		err := s.Walk(ctx, ".", func(path string, _ fs.DirEntry) error {
			if last = path; tt.at != "" && strings.HasSuffix(filepath.ToSlash(path), tt.at) {
				return tt.what()
			}
			return nil
		})
		if !errors.Is(err, tt.err) || last != y.path(tt.last) {
			t.Errorf("%s: %v, the last was %s", tt.name, err, last)
		}
	}
}

func TestWalkOfOtherThings(t *testing.T) {
	y := newYard(t)
	s := y.space()
	var got []string
	visit := func(path string, d fs.DirEntry) error {
		got = append(got, fmt.Sprint(filepath.Base(path), d.IsDir()))
		return nil
	}
	if err := s.Walk(t.Context(), "ok", visit); err != nil || !slices.Equal(got, []string{"okfalse"}) {
		t.Errorf("a file: %q, %v", got, err)
	}
	if err := s.Walk(t.Context(), "missing", visit); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	if err := s.Walk(t.Context(), ".env", visit); verdict(err) != "restricted" {
		t.Errorf("a hidden file: %v", err)
	}
}

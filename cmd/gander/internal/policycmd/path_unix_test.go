//go:build unix

package policycmd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gander.dev/gander/sandbox/rules/project"
)

// The other names of a file are looked for in all directories but those that links lead
// to, and the strictest one counts; where there are too many, that is said.
func TestOtherNames(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a/b", "closed"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b/read", "closed/none"} {
		if err := os.Link(filepath.Join(dir, "file"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".", filepath.Join(dir, "round")); err != nil {
		t.Fatal(err)
	}
	reached, err := project.Follow(dir, "file")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	search := func(until time.Time, deeper int) *nameSearch {
		s := &nameSearch{root: root, path: "file", file: reached.Info, until: until, judge: func(rel string) (explanation, bool) {
			access := filepath.Base(rel)
			return explanation{Access: access}, access != "file"
		}, judgeLink: func(string) (explanation, bool) { return explanation{Access: "none"}, false }}
		s.below(".", deeper)
		return s
	}
	later := time.Now().Add(time.Hour)
	if s := search(later, maxDepth); s.partial || s.found.LeadsTo != "closed/none" {
		t.Errorf("found %+v, in part: %v", s.found, s.partial)
	}
	if s := search(time.Now(), maxDepth); !s.partial || s.found.LeadsTo != "" {
		t.Errorf("without time %+v was found, in part: %v", s.found, s.partial)
	}
	if s := search(later, 1); !s.partial {
		t.Errorf("not deep enough, %+v was found, as if in full", s.found)
	}
}

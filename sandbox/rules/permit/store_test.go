package permit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func rule(text string, allow, isolated bool) Rule {
	return Rule{Subject: Subject{Kind: KindCommand, Agent: "goose", Tool: "shell", Text: text, Dir: "/p"}, Title: text, Allow: allow, Isolated: isolated}
}

func mustAdd(t *testing.T, s *Store, project string, r Rule) Rule {
	t.Helper()
	r, err := s.Add(project, r)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStore(t *testing.T) {
	dir, project := filepath.Join(t.TempDir(), "permissions"), t.TempDir()
	s := Open(dir)
	r := mustAdd(t, s, project, rule("git status", true, true))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(project, link); err != nil {
		t.Fatal(err)
	}
	s = Open(dir) // another process
	for _, p := range []string{project, link, project + "/."} {
		if got, ok, err := s.Find(p, r.Subject, true); err != nil || !ok || got.ID != r.ID || !got.Allow {
			t.Errorf("%s: %+v, %v, %v", p, got, ok, err)
		}
	}
	if _, ok, _ := s.Find(t.TempDir(), r.Subject, true); ok {
		t.Error("the answer of one project counts in another")
	}
	if _, ok, _ := s.Find(project, r.Subject, false); ok {
		t.Error("what was allowed in a sandbox is allowed without one")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, files[0]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	again := mustAdd(t, s, project, rule("git status", false, true))
	if rules, _ := s.Rules(project); len(rules) != 1 || rules[0].ID != again.ID {
		t.Errorf("the answer was not replaced: %+v", rules)
	}
	mustAdd(t, s, project, rule("git status", true, false))
	if got, ok, _ := s.Find(project, r.Subject, true); !ok || got.Allow {
		t.Errorf("a refusal does not win: %+v", got)
	}
	if err := s.Revoke(project, "nothing"); !errors.Is(err, ErrNoRule) {
		t.Errorf("revoking nothing: %v", err)
	}
	if err := s.Revoke(project, again.ID); err != nil {
		t.Fatal(err)
	}
	if got, ok, _ := s.Find(project, r.Subject, true); !ok || !got.Allow {
		t.Errorf("the other rule is gone, too: %+v", got)
	}
	if projects, err := s.Projects(); err != nil || len(projects) != 1 || projects[0] != Canonical(project) {
		t.Errorf("projects %q, %v", projects, err)
	}
	if n, err := s.Clear(project); n != 1 || err != nil {
		t.Errorf("cleared %d, %v", n, err)
	}
	if rules, err := s.Rules(project); len(rules) != 0 || err != nil {
		t.Errorf("after that there are %+v, %v", rules, err)
	}
}

// Broken rules allow nothing and are not overwritten.
func TestBrokenFile(t *testing.T) {
	s, project := Open(t.TempDir()), t.TempDir()
	r := mustAdd(t, s, project, rule("ls", true, true))
	if err := os.WriteFile(s.file(project), []byte(`{"rules":[{"allow":true`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Find(project, r.Subject, true); ok || err == nil || !strings.Contains(err.Error(), "permissions clear") {
		t.Errorf("found %v, %v", ok, err)
	}
	if _, err := s.Add(project, r); err == nil {
		t.Error("a file that cannot be read was overwritten")
	}
	if _, err := s.Clear(project); err != nil {
		t.Error(err)
	}
	mustAdd(t, s, project, r)
}

// Many writers lose nothing, and there is a bound.
func TestConcurrentRules(t *testing.T) {
	dir, project := t.TempDir(), t.TempDir()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 10 {
				if _, err := Open(dir).Add(project, rule(fmt.Sprintf("%d.%d", w, i), true, true)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if rules, err := Open(dir).Rules(project); len(rules) != 80 || err != nil {
		t.Errorf("%d rules, %v", len(rules), err)
	}
}

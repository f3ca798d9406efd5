package developer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"gander.dev/gander/developer/files"
)

func newSpaces(t *testing.T, o SpacesOptions) *Spaces {
	t.Helper()
	ignoreOthers := goleak.IgnoreCurrent()
	s := NewSpaces(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, ignoreOthers)
	})
	return s
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSpacesTakeRulesFromTheCallsDirectory(t *testing.T) {
	top := t.TempDir()
	a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
	put(t, filepath.Join(a, ".gooseignore"), "only-a\n")
	put(t, filepath.Join(b, ".gooseignore"), "only-b\n")
	put(t, filepath.Join(top, "global"), "everywhere\n")
	s := newSpaces(t, SpacesOptions{WorkingDir: a, GlobalIgnore: filepath.Join(top, "global")})
	for _, tt := range []struct{ dir, hidden, visible string }{{"", "only-a", "only-b"}, {a, "only-a", "only-b"}, {b, "only-b", "only-a"}} {
		sp, err := s.For(tt.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{tt.hidden, "everywhere"} {
			if _, ok := errors.AsType[*files.RestrictedError](sp.Check(name)); !ok {
				t.Errorf("in %q, %s is visible", tt.dir, name)
			}
		}
		if err := sp.Check(tt.visible); err != nil {
			t.Errorf("in %q: %v", tt.dir, err)
		}
	}
	if _, err := s.For("relative"); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative directory: %v", err)
	}
}

func TestGuardAnswersAsClassicGooseDid(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, ".env"), "SECRET")
	put(t, filepath.Join(dir, "sub", ".gooseignore"), "private\n")
	put(t, filepath.Join(dir, "sub", "private"), "")
	s := newSpaces(t, SpacesOptions{WorkingDir: dir})
	for _, tt := range []struct{ dir, command, want string }{
		{"", "cat .env", "The command attempts to access '.env' which is restricted by .gooseignore"},
		{"", "ls", ""},
		{filepath.Join(dir, "sub"), "cat private", "The command attempts to access 'private' which is restricted by .gooseignore"},
		{"", "cat sub/private", "The command attempts to access 'sub/private' which is restricted by .gooseignore"},
	} {
		err := s.Guard(tt.dir, tt.command)
		e, ok := errors.AsType[*Error](err)
		if tt.want == "" && err != nil || tt.want != "" && (!ok || e.Code != InternalError || e.Message != tt.want) {
			t.Errorf("%s in %q: %v, want %q", tt.command, tt.dir, err, tt.want)
		}
	}
}

func TestSpacesFollowTheRules(t *testing.T) {
	dir := t.TempDir()
	s := newSpaces(t, SpacesOptions{WorkingDir: dir})
	sp, err := s.For("")
	if err != nil {
		t.Fatal(err)
	}
	if err := sp.Check("later"); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, ".gooseignore"), "later\n")
	if sp.Check("later") == nil {
		t.Error("a space that was handed out does not follow the rules")
	}
}

// Rules that never could be read must not look like no rules, nor like rules that
// hide everything for no reason.
func TestUnreadableRulesAreSaid(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, ".gooseignore")
	if err := os.Mkdir(rules, 0o755); err != nil {
		t.Fatal(err)
	}
	s := newSpaces(t, SpacesOptions{WorkingDir: dir})
	for _, err := range []error{s.Guard("", "ls"), func() error { _, err := s.For(""); return err }()} {
		if err == nil || !strings.Contains(err.Error(), rules) || !strings.Contains(err.Error(), "mend or remove") {
			t.Errorf("%v", err)
		}
	}
	if err := os.Remove(rules); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For(""); err != nil {
		t.Error(err)
	}
}

func TestSpacesAreBounded(t *testing.T) {
	top := t.TempDir()
	s := newSpaces(t, SpacesOptions{WorkingDir: top})
	first, err := s.For(top)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxPlaces {
		dir := filepath.Join(top, strings.Repeat("d", i+1))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := s.For(dir); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.known); n != maxPlaces || len(s.order) != n {
		t.Errorf("%d directories are remembered, %d in order", n, len(s.order))
	}
	put(t, filepath.Join(top, ".gooseignore"), "later\n")
	if first.Check("later") == nil {
		t.Error("a space that was forgotten does not follow the rules any more")
	}
}

func TestNothingIsCreated(t *testing.T) {
	dir := t.TempDir()
	s := newSpaces(t, SpacesOptions{WorkingDir: dir, GlobalIgnore: filepath.Join(dir, "config", ".gooseignore")})
	sp, err := s.For("")
	if err != nil {
		t.Fatal(err)
	}
	_ = sp.Check(".env")
	_ = s.Guard("", "cat .env")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("there is %v, %v", entries, err)
	}
}

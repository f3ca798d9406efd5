package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"gander.dev/gander/developer/files"
	"gander.dev/gander/sandbox/rules/ignore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A yard is a project with hidden files, a home and another directory beside it.
type yard struct {
	testing.TB
	top, dir string
}

func newYard(t testing.TB) yard {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := yard{t, top, filepath.Join(top, "project")}
	y.write("project/.gooseignore", ".env\n/vault/\n*.key\n")
	y.write("project/.env", "SECRET")
	y.write("project/vault/a", "SECRET")
	y.write("project/sub/x.key", "SECRET")
	y.write("project/sub/ok", "fine")
	y.write("project/ok", "fine")
	y.write("home/notes", "home")
	y.write("other/file", "other")
	return y
}

func (y yard) path(rel string) string { return filepath.Join(y.top, filepath.FromSlash(rel)) }

func (y yard) write(rel, text string) {
	y.Helper()
	if err := os.MkdirAll(filepath.Dir(y.path(rel)), 0o755); err != nil {
		y.Fatal(err)
	}
	if err := os.WriteFile(y.path(rel), []byte(text), 0o644); err != nil {
		y.Fatal(err)
	}
}

func (y yard) read(rel string) string {
	y.Helper()
	data, err := os.ReadFile(y.path(rel))
	if err != nil {
		y.Fatal(err)
	}
	return string(data)
}

func (y yard) link(target, rel string) {
	y.Helper()
	if err := os.Symlink(target, y.path(rel)); err != nil {
		y.Fatal(err)
	}
}

func (y yard) space(change ...func(*files.Options)) *files.Space {
	y.Helper()
	rules, err := ignore.NewSet(ignore.SetOptions{Root: y.dir})
	if err != nil {
		y.Fatal(err)
	}
	o := files.Options{WorkingDir: y.dir, HomeDir: y.path("home"), Rules: rules}
	for _, c := range change {
		c(&o)
	}
	s, err := files.New(o)
	if err != nil {
		y.Fatal(err)
	}
	return s
}

func rooted(dirs ...string) func(*files.Options) {
	return func(o *files.Options) { o.Roots = dirs }
}

// verdict is an error in a word.
func verdict(err error) string {
	if _, ok := errors.AsType[*files.RestrictedError](err); ok {
		return "restricted"
	}
	if _, ok := errors.AsType[*files.OutsideError](err); ok {
		return "outside"
	}
	if _, ok := errors.AsType[*files.LoosensError](err); ok {
		return "loosens"
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, files.ErrNotRegular):
		return "not regular"
	case errors.Is(err, fs.ErrNotExist):
		return "not there"
	}
	return err.Error()
}

// leftovers are temporary files that were forgotten.
func (y yard) leftovers() (left []string) {
	y.Helper()
	err := filepath.WalkDir(y.top, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), ".gander-") {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		y.Fatal(err)
	}
	return left
}

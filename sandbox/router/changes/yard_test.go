package changes_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/ignore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A yard is a project, its store, and turns in it.
type yard struct {
	testing.TB
	dir, store string
	tree       *changes.Tree
	turns      int
}

func newYard(t testing.TB, change ...func(*changes.Options)) *yard {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{TB: t, dir: filepath.Join(top, "project"), store: filepath.Join(top, "store")}
	if err := os.Mkdir(y.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	y.open(change...)
	t.Cleanup(func() {
		y.tree.Close()
		y.sh("chmod -R u+rwx .") // so that it can be removed
	})
	return y
}

func (y *yard) open(change ...func(*changes.Options)) {
	y.Helper()
	rules, err := ignore.NewSet(ignore.SetOptions{Root: y.dir})
	if err != nil {
		y.Fatal(err)
	}
	o := changes.Options{Root: y.dir, Dir: y.store, Rules: rules, Time: time.Minute}
	for _, c := range change {
		c(&o)
	}
	if y.tree, err = changes.Open(o); err != nil {
		y.Fatal(err)
	}
}

func (y *yard) reopen() {
	y.Helper()
	if err := y.tree.Close(); err != nil {
		y.Fatal(err)
	}
	y.open()
}

func (y *yard) path(rel string) string { return filepath.Join(y.dir, filepath.FromSlash(rel)) }

func (y *yard) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *yard) write(rel, text string) {
	y.Helper()
	y.must(os.MkdirAll(filepath.Dir(y.path(rel)), 0o755))
	y.must(os.WriteFile(y.path(rel), []byte(text), 0o644))
}

func (y *yard) read(rel string) string {
	data, err := os.ReadFile(y.path(rel))
	if errors.Is(err, fs.ErrNotExist) {
		return "(nothing)"
	}
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (y *yard) sh(script string) {
	y.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = y.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		y.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// turn does something between two looks and returns what was found.
func (y *yard) turn(do func()) *changes.Turn {
	y.Helper()
	before, err := y.tree.Begin(context.Background())
	y.must(err)
	do()
	y.turns++
	turn, err := y.tree.End(context.Background(), before, "session", fmt.Sprintf("turn-%04d", y.turns))
	y.must(err)
	return turn
}

// said are the changes of a turn, a line each.
func said(turn *changes.Turn) string {
	var lines []string
	for _, c := range turn.Changes {
		lines = append(lines, c.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (y *yard) expect(turn *changes.Turn, want ...string) {
	y.Helper()
	slices.Sort(want)
	if got := said(turn); got != strings.Join(want, "\n") {
		y.Errorf("found:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// state is every path of the project that can be read, with type, mode and content.
func (y *yard) state() string {
	y.Helper()
	var b strings.Builder
	err := filepath.WalkDir(y.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		case d.Type()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		}
		rel, _ := filepath.Rel(y.dir, path)
		fmt.Fprintf(&b, "%q %v %q\n", rel, info.Mode(), content)
		return err
	})
	y.must(err)
	return b.String()
}

package editor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/developer/files"
)

// A bench is an editor and a directory to edit in.
type bench struct {
	*Editor
	t   *testing.T
	dir string
	fs  Files
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	space, err := files.New(files.Options{WorkingDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{New(Options{}), t, dir, space}
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b *bench) put(name, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// has checks a file's content; "-" means that there must be none.
func (b *bench) has(name, want string) {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if want == "-" {
		if !errors.Is(err, fs.ErrNotExist) {
			b.t.Errorf("%s is there: %q, %v", name, data, err)
		}
		return
	}
	if err != nil || string(data) != want {
		b.t.Errorf("%s is %q, %v; want %q", name, data, err, want)
	}
}

func (b *bench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) write(name, content string) {
	b.t.Helper()
	_, err := b.Write(b.fs, name, content)
	b.ok(err)
}
func (b *bench) undo(name string) { b.t.Helper(); b.ok(b.Undo(b.fs, name)) }

func (b *bench) refusesUndo(name, want string) {
	b.t.Helper()
	err := b.Undo(b.fs, name)
	if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(err.Error(), want) {
		b.t.Errorf("undo of %s: %v, want %q", name, err, want)
	}
}

const (
	noHistory = "No edit history available to undo"
	conflict  = "has changed since"
)

func TestUndoTakesEveryKindOfChangeBack(t *testing.T) {
	b := newBench(t)
	b.put("a", "1\r\n2\n3")
	_, err := b.Replace(b.fs, "a", "2", "two")
	b.ok(err)
	_, _, err = b.Insert(b.fs, b.path("a"), 0, "zero")
	b.ok(err)
	b.write("a", "all new\n")
	_, err = b.Patch(b.fs, "a", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-all new\n+newer\n")
	b.ok(err)
	b.has("a", "newer\r\n")
	b.undo("a")
	b.has("a", "all new\r\n")
	b.undo("./a")
	b.has("a", "zero\r\n1\r\ntwo\n3")
	b.undo(b.path("sub/../a"))
	b.has("a", "1\r\ntwo\n3")
	b.undo("a")
	b.has("a", "1\r\n2\n3")
	b.refusesUndo("a", noHistory)
}

func TestUndoOfMakingAndRemoving(t *testing.T) {
	b := newBench(t)
	b.write("d/new", "x\n")
	b.undo("d/new")
	b.has("d/new", "-")
	b.refusesUndo("d/new", noHistory)

	b.put("old", "x\n")
	b.ok(os.Chmod(b.path("old"), 0o750))
	_, err := b.Patch(b.fs, ".", "--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")
	b.ok(err)
	b.has("old", "-")
	b.undo("old")
	b.has("old", "x\n")
	if info, err := os.Stat(b.path("old")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestUndoNeverLosesSomebodyElsesChange(t *testing.T) {
	b := newBench(t)
	b.put("a", "1\n")
	b.write("a", "2\n")
	b.put("a", "theirs\n")
	b.refusesUndo("a", conflict)
	b.has("a", "theirs\n")

	// What was done on top of theirs can be undone, and no more.
	b.write("a", "3\n")
	b.undo("a")
	b.has("a", "theirs\n")
	b.refusesUndo("a", conflict)
	b.put("a", "2\n") // they took it back
	b.undo("a")
	b.has("a", "1\n")

	b.write("new", "x\n")
	b.put("new", "filled\n")
	b.refusesUndo("new", conflict)
	b.has("new", "filled\n")

	b.write("gone", "x\n")
	b.ok(os.Remove(b.path("gone")))
	b.refusesUndo("gone", conflict)
	b.has("gone", "-")
}

func TestHistoryGoesByTheFileNotTheName(t *testing.T) {
	b := newBench(t)
	b.put("real/a", "1\n")
	b.ok(os.Symlink(b.path("real"), b.path("dir")))
	b.ok(os.Symlink("real/a", b.path("link")))
	b.write("dir/a", "2\n")
	b.undo("link")
	b.has("real/a", "1\n")
	if info, err := os.Lstat(b.path("link")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
}

// A link that leads to nothing makes its target, and undo removes that.
func TestUndoThroughADanglingLink(t *testing.T) {
	b := newBench(t)
	b.ok(os.Symlink("target", b.path("link")))
	b.write("link", "x\n")
	b.has("target", "x\n")
	b.undo("link")
	b.has("target", "-")
	if target, err := os.Readlink(b.path("link")); target != "target" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	b.write("target", "y\n")
	b.undo("link")
	b.has("target", "-")

	b.ok(os.Symlink("link", b.path("link to link")))
	b.write("link to link", "z\n")
	b.undo("link to link")
	b.has("target", "-")

	b.ok(os.Symlink("loop", b.path("loop")))
	if _, err := b.Write(b.fs, "loop", "x"); err == nil {
		t.Error("a loop of links was written")
	}
}

func TestHistoryIsBounded(t *testing.T) {
	b := newBench(t)
	b.Editor = New(Options{HistoryBytes: 100_000})
	content := func(i int) string { return strings.Repeat(fmt.Sprintf("line %d\n", i), 1000) }
	for i := range 100 {
		b.write(fmt.Sprintf("f%d", i%3), content(i))
	}
	if b.history.bytes > 100_000 {
		t.Errorf("the history has %d bytes", b.history.bytes)
	}
	undone := 0
	for i := 99; i >= 0; i-- {
		if b.Undo(b.fs, fmt.Sprintf("f%d", i%3)) != nil {
			break
		}
		undone++
		if i >= 3 {
			b.has(fmt.Sprintf("f%d", i%3), content(i-3))
		}
	}
	if undone < 5 || undone > 15 {
		t.Errorf("%d edits could be undone", undone)
	}
	var left int64
	for _, vs := range b.history.versions {
		for _, v := range vs {
			left += cost(v)
		}
	}
	if left != b.history.bytes {
		t.Errorf("the history counts %d bytes and has %d", b.history.bytes, left)
	}
}

// One change larger than the whole history can still be undone.
func TestHistoryKeepsTheNewest(t *testing.T) {
	b := newBench(t)
	b.Editor = New(Options{HistoryBytes: 10})
	b.put("a", strings.Repeat("x\n", 1000))
	b.write("a", "y\n")
	b.undo("a")
	b.has("a", strings.Repeat("x\n", 1000))
}

func TestNoHistory(t *testing.T) {
	b := newBench(t)
	b.Editor = New(Options{HistoryBytes: -1})
	b.write("a", "x\n")
	b.refusesUndo("a", noHistory)
}

func TestEditsOfOneFileLoseNothing(t *testing.T) {
	b := newBench(t)
	b.put("a", "start\n")
	b.ok(os.Symlink("a", b.path("b")))
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := []string{"a", "b", b.path("a")}[i%3]
			if i%2 == 0 {
				if _, _, err := b.Insert(b.fs, name, -1, fmt.Sprintf("line %d", i)); err != nil {
					t.Error(err)
				}
				return
			}
			if _, err := b.Replace(b.fs, name, "start\n", fmt.Sprintf("start\nline %d\n", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(b.path("a"))
	b.ok(err)
	for i := range n {
		if strings.Count(string(data), fmt.Sprintf("line %d\n", i)) != 1 {
			t.Errorf("line %d is lost", i)
		}
	}
	for range n {
		b.undo("a")
	}
	b.has("a", "start\n")
	if len(b.locks.held) != 0 {
		t.Errorf("%d locks are left", len(b.locks.held))
	}
}

// Edits of several files at once wait for each other without a deadlock.
func TestDiffsOverTheSameFiles(t *testing.T) {
	b := newBench(t)
	b.put("a", "a0\n")
	b.put("b", "b0\n")
	var wg sync.WaitGroup
	add := func(name, l string) string {
		return fmt.Sprintf("--- a/%s\n+++ b/%s\n@@ -0,0 +1 @@\n+%s\n", name, name, l)
	}
	for i := range 20 {
		wg.Go(func() {
			first, second := "a", "b"
			if i%2 == 0 {
				first, second = second, first
			}
			l := fmt.Sprintf("line %d", i)
			if _, err := b.Patch(b.fs, ".", add(first, l)+add(second, l)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, name := range []string{"a", "b"} {
		data, err := os.ReadFile(b.path(name))
		b.ok(err)
		if n := strings.Count(string(data), "\n"); n != 21 {
			t.Errorf("%s has %d lines", name, n)
		}
	}
}

func TestModeIsKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes on Windows")
	}
	b := newBench(t)
	b.put("a", "1\n")
	b.ok(os.Chmod(b.path("a"), 0o754))
	b.write("a", "2\n")
	_, err := b.Patch(b.fs, ".", "diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+#!/bin/sh\n")
	b.ok(err)
	b.write("y", "")
	for name, want := range map[string]fs.FileMode{"a": 0o754, "x": 0o755, "y": 0o644} {
		if info, err := os.Stat(b.path(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// broken is a file system on which the writing and removing of some files fails.
type broken struct {
	Files
	failing string
}

var errBroken = errors.New("the disk is full")

func (f broken) WriteFile(name string, data []byte, perm fs.FileMode) error {
	if f.failing != "" && strings.HasSuffix(name, f.failing) {
		return errBroken
	}
	return f.Files.WriteFile(name, data, perm)
}

func (f broken) Remove(name string) error {
	if f.failing != "" && strings.HasSuffix(name, f.failing) {
		return errBroken
	}
	return f.Files.Remove(name)
}

func TestNothingIsHalfDone(t *testing.T) {
	diff := "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n" +
		"--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n" +
		"--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n" +
		"--- a/z\n+++ b/z\n@@ -1 +1 @@\n-z\n+Z\n"
	unchanged := func(b *bench) {
		b.t.Helper()
		b.has("a", "a\n")
		b.has("new", "-")
		b.has("gone", "g\n")
		b.has("z", "z\n")
		for _, name := range []string{"a", "new", "gone", "z"} {
			b.refusesUndo(name, noHistory)
		}
	}
	for _, failing := range []string{"a", "new", "gone", "z"} {
		t.Run("writing "+failing, func(t *testing.T) {
			b := newBench(t)
			b.put("a", "a\n")
			b.put("gone", "g\n")
			b.put("z", "z\n")
			_, err := b.Patch(broken{b.fs, failing}, ".", diff)
			if err == nil || err.Error() != "Failed to write file: the disk is full" {
				t.Errorf("error %v", err)
			}
			unchanged(b)
		})
	}
	t.Run("a hunk that does not fit", func(t *testing.T) {
		b := newBench(t)
		b.put("a", "a\n")
		b.put("gone", "g\n")
		b.put("z", "z\n")
		_, err := b.Patch(b.fs, ".", strings.ReplaceAll(diff, "-z", "-other"))
		if err == nil || !strings.Contains(err.Error(), "Hunk 1 of 1 for '"+b.path("z")+"' does not apply, and nothing was changed") {
			t.Errorf("error %v", err)
		}
		unchanged(b)
	})
}

// meddler changes a file after it was read the first time.
type meddler struct {
	Files
	reads map[string]int
	path  string
}

func (m meddler) ReadFile(name string, limit int64) ([]byte, fs.FileInfo, error) {
	data, info, err := m.Files.ReadFile(name, limit)
	if m.reads[name]++; strings.HasSuffix(name, m.path) && m.reads[name] == 1 {
		err = errors.Join(err, os.WriteFile(name, []byte("theirs\n"), 0o644))
	}
	return data, info, err
}

func TestChangesDuringAnEditAreNotLost(t *testing.T) {
	b := newBench(t)
	b.put("a", "a\n")
	b.put("z", "z\n")
	diff := "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n--- a/z\n+++ b/z\n@@ -1 +1 @@\n-z\n+Z\n"
	_, err := b.Patch(meddler{b.fs, map[string]int{}, "z"}, ".", diff)
	if _, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(err.Error(), "'"+b.path("z")+"' was changed by somebody else") {
		t.Errorf("error %v", err)
	}
	b.has("a", "a\n")
	b.has("z", "theirs\n")
	b.refusesUndo("a", noHistory)
}

func TestRollbackSaysWhatItCouldNotTakeBack(t *testing.T) {
	b := newBench(t)
	b.put("a", "a\n")
	b.put("b", "b\n")
	changes := []change{{b.path("a"), b.path("a"), file{data: []byte("before\n")}, file{data: []byte("a\n")}}}
	err := rollback(broken{b.fs, "a"}, changes)
	if err == nil || !strings.Contains(err.Error(), "'"+b.path("a")+"', which stays: the disk is full") {
		t.Errorf("error %v", err)
	}
	changes[0].after.data = []byte("no longer so\n")
	b.ok(rollback(b.fs, changes))
	b.has("a", "a\n") // somebody changed it meanwhile: left alone
}

func TestLimits(t *testing.T) {
	b := newBench(t)
	b.put("large", "")
	b.ok(os.Truncate(b.path("large"), maxEditBytes+1))
	for name, err := range map[string]error{
		"write":   second(b.Write(b.fs, "large", "x")),
		"replace": second(b.Replace(b.fs, "large", "x", "y")),
	} {
		if err == nil || !strings.Contains(err.Error(), "it is too large (32.00MB)") {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.put("long", strings.Repeat("\n", maxLines+1))
	if _, err := b.Replace(b.fs, "long", "x", "y"); err == nil || !strings.Contains(err.Error(), "the file has 1000001 lines") {
		t.Errorf("long: %v", err)
	}
	b.put("binary", "a\x00b")
	if _, err := b.Replace(b.fs, "binary", "a", "c"); err == nil || err.Error() != "Failed to read file: the file is binary (byte 1 is NUL)" {
		t.Errorf("binary: %v", err)
	}
	b.write("binary", "text\n")
	b.undo("binary")
	b.has("binary", "a\x00b")
}

// Every command keeps to the roots, also through links.
func TestRoots(t *testing.T) {
	b := newBench(t)
	b.put("in/f", "x\n")
	b.put("out/f", "x\n")
	b.ok(os.Symlink(b.path("out"), b.path("in/dir")))
	b.ok(os.Symlink(b.path("out/f"), b.path("in/link")))
	space, err := files.New(files.Options{WorkingDir: b.path("in"), Roots: []string{b.path("in")}})
	b.ok(err)
	diff := "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"
	for _, name := range []string{"../out/f", b.path("out/f"), "dir/f", "link"} {
		for command, err := range map[string]error{
			"view":    second(b.View(space, name, nil)),
			"write":   second(b.Write(space, name, "y")),
			"replace": second(b.Replace(space, name, "x", "y")),
			"insert":  third(b.Insert(space, name, 0, "y")),
			"undo":    b.Undo(space, name),
			"diff":    second(b.Patch(space, name, diff)),
			"set":     second(b.SetContent(space, name, "y")),
			"swap":    b.Swap(space, name, "x", "y"),
		} {
			if command == "view" && filepath.IsAbs(name) { // which may be read
				b.ok(err)
				continue
			}
			if _, ok := errors.AsType[*files.OutsideError](err); !ok {
				t.Errorf("%s of %s: %v", command, name, err)
			}
		}
	}
	for _, dir := range []string{"dir", "../out"} {
		for command, err := range map[string]error{"list": second(b.List(space, dir)), "diff": second(b.Patch(space, dir, diff))} {
			if _, ok := errors.AsType[*files.OutsideError](err); !ok {
				t.Errorf("%s of %s: %v", command, dir, err)
			}
		}
	}
	b.has("out/f", "x\n")
	b.ok(second(b.Replace(space, "f", "x", "y")))
	b.has("in/f", "y\n")
}

// memoryBuffers are the unsaved texts of an editor.
type memoryBuffers map[string]string

func (m memoryBuffers) ReadTextFile(path string) (string, error) {
	if s, ok := m[path]; ok {
		return s, nil
	}
	return "", files.ErrNoBuffer
}

func (m memoryBuffers) WriteTextFile(path, text string) error {
	if _, ok := m[path]; !ok {
		return files.ErrNoBuffer
	}
	m[path] = text
	return nil
}

// What a person has not saved yet is what is edited, and it is not saved by that.
func TestUnsavedText(t *testing.T) {
	b := newBench(t)
	b.put("f", "saved\n")
	buffers := memoryBuffers{b.path("f"): "unsaved\r\nsecond\r\n", b.path("untitled"): "only here"}
	space, err := files.New(files.Options{WorkingDir: b.dir, Buffers: buffers})
	b.ok(err)
	shown, err := b.View(space, "f", nil)
	if err != nil || !strings.Contains(shown, "1: unsaved\n2: second\n") {
		t.Errorf("view: %q, %v", shown, err)
	}
	b.ok(second(b.Replace(space, "f", "second", "2\n3")))
	b.ok(second(b.Patch(space, "f", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-unsaved\n+changed\n 2\n")))
	b.ok(second(b.Replace(space, "untitled", "only", "still only")))
	b.has("f", "saved\n")
	b.has("untitled", "-")
	if got := buffers[b.path("f")]; got != "changed\r\n2\r\n3\r\n" {
		t.Errorf("the buffer is %q", got)
	}
	if got := buffers[b.path("untitled")]; got != "still only here" {
		t.Errorf("the untitled buffer is %q", got)
	}
	b.ok(b.Undo(space, "f"))
	b.ok(b.Undo(space, "f"))
	if got := buffers[b.path("f")]; got != "unsaved\r\nsecond\r\n" {
		t.Errorf("after undo the buffer is %q", got)
	}
}

func third[T, U any](_ T, _ U, err error) error { return err }

func second[T any](_ T, err error) error { return err }

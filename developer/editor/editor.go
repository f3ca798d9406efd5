// Package editor changes text files for a model: view, write, replace, insert,
// apply a diff, and undo any of them.
//
// Make one [Editor] with [New] and use its methods with the file system of the
// call. What they do to a file's content are pure functions over a text, which
// is a list of lines that remember how they ended. So a file keeps its line
// ends, its byte order mark, and whether its last line has an end; texts from a
// model are compared with the file as if both had LF.
//
// Every change is atomic and can be undone, also the making and the removing of
// a file, as long as nobody else changed it since. A diff over several files is
// checked for all of them before the first is written, and taken back when one
// cannot be. (Directories that were made on the way stay.)
//
// The methods may be called concurrently; edits of one file wait for each other.
// The wording of errors is classic goose's where it had one: an [InvalidError] is
// for the caller to mend, everything else is a refusal or a failure.
package editor

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"

	"gander.dev/gander/developer/files"
)

// Options of an [Editor].
type Options struct {
	// HistoryBytes bounds the memory for undo; beyond it the oldest changes can no
	// longer be undone. 0 means 64 MiB; below 0 nothing can be undone.
	HistoryBytes int64
}

// An Editor edits files and remembers what they were before.
type Editor struct {
	history history
	locks   locks
}

// New makes an Editor with an empty history.
func New(o Options) *Editor {
	if o.HistoryBytes == 0 {
		o.HistoryBytes = 64 << 20
	}
	return &Editor{
		history: history{limit: o.HistoryBytes, versions: map[string][]version{}},
		locks:   locks{held: map[string]*lock{}},
	}
}

// View shows a file with line numbers, or the part of it in r, under a heading
// with its path.
func (e *Editor) View(f Files, name string, r *Range) (string, error) {
	path := f.Abs(name)
	data, info, err := f.ReadFile(name, maxViewBytes)
	if large, ok := errors.AsType[*files.TooLargeError](err); ok {
		return "", literally("File '%s' is too large (%.2fKB). Maximum size is 400KB to prevent memory issues.", path, float64(large.Size)/1024)
	}
	if errors.Is(err, fs.ErrNotExist) || err != nil && info != nil && !info.Mode().IsRegular() {
		return "", literally("The path '%s' does not exist or is not accessible.", path)
	}
	if err != nil {
		return "", failed("open", err)
	}
	t, err := decode(data)
	if err != nil {
		return "", failed("read", err)
	}
	return t.view(path, r)
}

// maxEntries is how many names a listing of a directory shows.
const maxEntries = 50

// List names what is in a directory: directories first, then files.
func (e *Editor) List(f Files, name string) (string, error) {
	entries, err := f.ReadDir(name)
	if err != nil {
		if refused(err) {
			return "", err
		}
		return "", literally("Failed to read directory: %s", Reason(err))
	}
	var dirs, others []string
	for _, entry := range entries[:min(len(entries), maxEntries)] {
		if entry.IsDir() {
			dirs = append(dirs, "  "+entry.Name()+"/\n")
		} else {
			others = append(others, "  "+entry.Name()+"\n")
		}
	}
	sort.Strings(dirs)
	sort.Strings(others)
	s := fmt.Sprintf("'%s' is a directory. Contents:\n\n", f.Abs(name))
	if len(dirs) > 0 {
		s += "Directories:\n" + strings.Join(dirs, "") + "\n"
	}
	if len(others) > 0 {
		s += "Files:\n" + strings.Join(others, "")
	}
	if len(entries) == 0 {
		s += "  (empty directory)\n"
	}
	if more := len(entries) - maxEntries; more > 0 {
		s += fmt.Sprintf("\n... and %d more items (showing first %d items)\n", more, maxEntries)
	}
	return s, nil
}

// Write gives a file a new content, and makes it and its directories when they
// are not there. An existing file keeps its style: CRLF and byte order mark where
// the new text has none, and an open last line. shown is the text as it is now,
// with LF.
func (e *Editor) Write(f Files, name, content string) (shown string, err error) {
	err = e.edit(f, name, "write", func(now file) ([]byte, error) {
		t := restyle(now.data, content)
		shown = t.plain()
		return t.bytes(), nil
	})
	return shown, err
}

// Replace puts new in the place of the only occurrence of old and returns the
// changed lines with some before and after them.
func (e *Editor) Replace(f Files, name, old, new string) (snippet string, err error) {
	err = e.edit(f, name, "read", func(now file) ([]byte, error) {
		t, err := existing(f, name, now)
		if err != nil {
			return nil, err
		}
		t, at, err := t.replace(old, new)
		snippet = t.snippet(at, 1+strings.Count(new, "\n"), false)
		return t.bytes(), err
	})
	return snippet, err
}

// Insert puts a text after a line: 0 is the beginning, -1 the end, -2 before the
// last line. It returns the new lines' first number and a numbered snippet around
// them.
func (e *Editor) Insert(f Files, name string, after int64, s string) (first int, snippet string, err error) {
	err = e.edit(f, name, "read", func(now file) ([]byte, error) {
		t, err := existing(f, name, now)
		if err != nil {
			return nil, err
		}
		t, at, err := t.insert(after, s)
		first, snippet = at+1, t.snippet(at, 1+strings.Count(s, "\n"), true)
		return t.bytes(), err
	})
	return first, snippet, err
}

// Undo takes the last change of a file back. When the file is not as that change
// left it, nothing happens but an error: the other change would be lost.
func (e *Editor) Undo(f Files, name string) error {
	path := f.Abs(name)
	if err := f.CheckChange(name); err != nil {
		return err
	}
	key := resolve(path)
	defer e.locks.acquire(key)()
	last, ok := e.history.last(key)
	if !ok {
		return invalid("No edit history available to undo")
	}
	now, err := read(f, path)
	if err != nil {
		return failed("read", err)
	}
	if !last.matches(now) {
		return invalid("The last edit of '%s' cannot be undone: the file has changed since, and that change would be lost. View the file and edit it instead.", path)
	}
	if err := apply(f, path, last.before); err != nil {
		return failed("write", err)
	}
	e.history.drop(key, last)
	return nil
}

// edit changes one file. doing is what fails when its present state cannot be read.
func (e *Editor) edit(f Files, name, doing string, compute func(file) ([]byte, error)) error {
	path := f.Abs(name)
	if err := f.CheckChange(name); err != nil {
		return err
	}
	key := resolve(path)
	defer e.locks.acquire(key)()
	now, err := read(f, path)
	if err != nil {
		return failed(doing, err)
	}
	data, err := compute(now)
	if err != nil {
		return err
	}
	return e.commit(f, []change{{path, key, now, file{data: data, perm: now.perm}}})
}

// existing is the text of a file that must be there.
func existing(f Files, name string, now file) (text, error) {
	if now.missing {
		return text{}, invalid("File '%s' does not exist, you can write a new file with the `write` command", f.Abs(name))
	}
	t, err := decode(now.data)
	if err != nil {
		return text{}, failed("read", err)
	}
	return t, nil
}

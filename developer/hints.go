package developer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxHintFile and maxHints bound one file with hints and all hints together, in bytes.
	maxHintFile = 128 << 10
	maxHints    = 256 << 10
	// maxHintDepth is how deep files with hints may name each other.
	maxHintDepth = 3
)

// hints are what a person and a project tell whoever works here: the files of some
// names in the person's own directory, then from the root of the repository down
// to the working directory. goose reads them itself; other clients are told.
//
// What they say is text for a model and nothing else. They come through the same
// rules as every file a tool reads: what is ignored, or lies outside, is left out.
func (w *workshop) hints(names []string) string {
	var b strings.Builder
	if len(names) == 0 {
		return ""
	}
	if dir := w.o.ConfigDir; dir != "" {
		r := hintReader{root: dir, read: readPlain}
		section(&b, "### Global Hints", r.all([]string{dir}, names))
	}
	space, err := w.spaces.For("")
	if err != nil {
		return b.String()
	}
	dirs := projectDirs(w.o.WorkingDir)
	r := hintReader{root: dirs[0], read: func(path string) ([]byte, error) {
		data, _, err := space.ReadFile(path, maxHintFile)
		return data, err
	}}
	section(&b, "### Project Hints", r.all(dirs, names))
	return b.String()
}

func section(b *strings.Builder, heading, text string) {
	if text != "" {
		fmt.Fprintf(b, "\n%s\n%s\n", heading, text)
	}
}

// projectDirs are the directories from the root of the repository to dir; only dir
// when it is in no repository.
func projectDirs(dir string) []string {
	dirs := []string{dir}
	for d := dir; ; {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return dirs
		}
		up := filepath.Dir(d)
		if up == d {
			return []string{dir}
		}
		d = up
		dirs = append([]string{d}, dirs...)
	}
}

// readPlain reads a file of the person's own.
func readPlain(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, os.ErrInvalid)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxHintFile+1))
	if len(data) > maxHintFile {
		return nil, os.ErrInvalid
	}
	return data, err
}

// hintReader reads files with hints, none outside root.
type hintReader struct {
	root string
	read func(path string) ([]byte, error)
	size int
}

// all is the text of the files of these names in these directories.
func (r *hintReader) all(dirs, names []string) string {
	var texts []string
	for _, dir := range dirs {
		for _, name := range names {
			if name != filepath.Base(name) {
				continue
			}
			if text, ok := r.file(filepath.Join(dir, name), nil); ok {
				texts = append(texts, strings.TrimRight(text, "\n"))
			}
		}
	}
	return strings.Join(texts, "\n")
}

// file is a file's text with what it names put in. Files that cannot be had are
// left out: they need not be there.
func (r *hintReader) file(path string, above []string) (string, bool) {
	resolved, ok := r.inside(path)
	if !ok || len(above) > maxHintDepth || slices.Contains(above, resolved) {
		return "", false
	}
	data, err := r.read(path)
	if err != nil || len(data) > maxHintFile || r.size+len(data) > maxHints {
		return "", false
	}
	r.size += len(data)
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	return r.include(text, filepath.Dir(path), append(above[:len(above):len(above)], resolved)), true
}

// reference is @path at the beginning of a word; the path has a dot or a slash, or
// it would be a name.
var reference = regexp.MustCompile(`(^|\s)@([A-Za-z0-9_./-]*[./][A-Za-z0-9_./-]*[A-Za-z0-9_-])`)

// include puts the files that a text names where it names them.
func (r *hintReader) include(text, dir string, above []string) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		parts := reference.FindStringSubmatch(match)
		ref := parts[2]
		if filepath.IsAbs(ref) {
			return match
		}
		inner, ok := r.file(filepath.Join(dir, filepath.FromSlash(ref)), above)
		if !ok {
			return match
		}
		return fmt.Sprintf("%s--- Content from %s ---\n%s\n--- End of %s ---", parts[1], ref, strings.TrimRight(inner, "\n"), ref)
	})
}

// inside resolves links, and reports whether the file is below root.
func (r *hintReader) inside(path string) (resolved string, ok bool) {
	resolved, err1 := filepath.EvalSymlinks(path)
	root, err2 := filepath.EvalSymlinks(r.root)
	if err1 != nil || err2 != nil {
		return "", false
	}
	rel, err := filepath.Rel(root, resolved)
	return resolved, err == nil && filepath.IsLocal(rel)
}

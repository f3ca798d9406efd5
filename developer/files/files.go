// Package files is the file system as the tools may see it: relative to the
// directory of the call, without the files that the ignore rules hide, changed
// inside the roots only where there are some. Every tool of the developer extension that touches
// a file does it through a [Space], so that there is one place that decides.
//
// [New] makes a Space; it is cheap, immutable and safe for concurrent use. Names
// are as a person or a model writes them: absolute, relative, or with a leading
// tilde. Whether a name may be used is decided on the name itself, on what its
// links lead to, and again on the file that was really opened.
//
// It is a guard for tools that run with the rights of whoever started them, not
// a sandbox: what a started program does is not seen here.
package files

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Rules say which files may not be touched. An ignore.Set is one. What else it can
// do is used where it is there: to decide about a whole directory (List), to tell
// that the rules changed (Version), to judge new rules (Loosens).
type Rules interface {
	// Ignored says whether the file, or one of the directories that it is in, is
	// hidden. abs is absolute and clean; dir says that it is a directory.
	Ignored(abs string, dir bool) bool
}

// Options describe a Space.
type Options struct {
	// WorkingDir is what relative names are joined to; absolute.
	WorkingDir string
	// HomeDir is what a leading ~ stands for; empty leaves it alone.
	HomeDir string
	// AppDataDir is what %APPDATA% stands for on Windows; empty leaves it alone.
	AppDataDir string
	// Roots are the directories outside of which nothing is changed, and which no name
	// leaves by ".." or by a link, not for reading either; other absolute names can be
	// read. nil leaves everything open; an empty list lets nothing be changed.
	Roots []string
	// Rules hide files; nil hides none.
	Rules Rules
	// Buffers are an editor's unsaved files, which serve before the disk; nil means
	// there is no editor.
	Buffers Buffers
}

// A Space is the part of the file system that one call may use.
type Space struct {
	o     Options
	twins *twins
	note  func(string) // may be nil
}

// Noting returns the same Space, which tells note what somebody should know about a change
// that was made.
func (s *Space) Noting(note func(string)) *Space {
	noting := *s
	noting.note = note
	return &noting
}

// New checks the options: WorkingDir and Roots are absolute.
func New(o Options) (*Space, error) {
	for _, dir := range append([]string{o.WorkingDir}, o.Roots...) {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("the directory '%s' is not an absolute path; name it from the root of the file system", dir)
		}
	}
	o.WorkingDir = filepath.Clean(o.WorkingDir)
	o.Roots = slices.Clone(o.Roots)
	return &Space{o: o, twins: &twins{top: o.WorkingDir, rules: o.Rules}}, nil
}

// WorkingDir is the directory that relative names are joined to.
func (s *Space) WorkingDir() string { return s.o.WorkingDir }

// A RestrictedError says that the ignore rules hide a file. Its text is that of
// classic goose, which programs match on.
type RestrictedError struct{ Path string }

func (e *RestrictedError) Error() string {
	return fmt.Sprintf("Access to '%s' is restricted by .gooseignore", e.Path)
}

// An OutsideError says that a name leads out of the roots.
type OutsideError struct {
	// Path is the name, absolute; Target is what it leads to.
	Path, Target string
	Roots        []string
	// Changing says that it was to be changed, not only read.
	Changing bool
}

func (e *OutsideError) Error() string {
	name := "'" + e.Path + "'"
	if e.Target != e.Path {
		name += " leads to '" + e.Target + "', which"
	}
	where := "there are none"
	if len(e.Roots) > 0 {
		where = "'" + strings.Join(e.Roots, "', '") + "'"
	}
	if !e.Changing {
		return name + " is outside of the allowed directories (" + where + "), which names with '..' and links must not leave; use its absolute path, or start the server with --root for its directory"
	}
	return name + " is outside of the allowed directories (" + where + "), so it is not changed; use a path inside them, or start the server with --root for its directory (--root / allows all)"
}

// A TooLargeError says that a file has more bytes than the caller can take.
type TooLargeError struct {
	Path        string
	Size, Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("File '%s' is too large (%d bytes, at most %d)", e.Path, e.Size, e.Limit)
}

// ErrNotRegular is wrapped when something other than a file with content (a
// directory, pipe, socket or device) was to be read or written.
var ErrNotRegular = errors.New("not a regular file")

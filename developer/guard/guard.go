// Package guard reads the words of a command line before it runs and refuses one that
// names a file which the ignore rules hide.
//
// [Check] expands each word as a shell would (quotes, escapes, globs, braces, ~, variables
// that the command inherits) and refuses the command when a word, or a part of it that
// programs take for a name, is an existing file that the rules hide: in the directory where
// the command starts, or in one that it names to cd. It also reads commands that are given
// to eval or by a flag such as -c.
//
// It is a guard against mistakes, and no wall. It says no to what an agent does without
// thinking, at once and with a reason. What is done by variables of the command's own, by
// loops, scripts, makefiles, pipes into xargs, searches through a tree, or a program that
// makes up a name, it does not see. The kernel does (package shell, Options.KeepRules),
// where it is asked.
//
// It does not refuse, on purpose: programs found in PATH; words of echo and printf; words
// for leaving something out (--exclude=.env); a word without slash or dot that is the name of
// a hidden directory, as in "go build".
package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"

	"gander.dev/gander/developer/files"
)

// Files decide about paths; a files.Space does.
type Files interface {
	// Check returns a [files.RestrictedError] when the rules hide the file that an
	// absolute path leads to.
	Check(name string) error
}

// Options describe where a command will run.
type Options struct {
	// WorkingDir is where it starts; absolute.
	WorkingDir string
	// HomeDir replaces ~; empty leaves it unknown.
	HomeDir string
	// Environment lists what it inherits, as NAME=VALUE.
	Environment []string
	// Files decide.
	Files Files
	// Words takes the line for words between blanks and signs, as for the shells
	// of Windows, instead of a POSIX shell's language. On Windows it is always so.
	Words bool
}

// A Refused error says which file a command may not touch, in the words of classic
// goose.
type Refused struct {
	// Arg is the file as the command names it, its quotes and variables resolved.
	Arg string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("The command attempts to access '%s' which is restricted by .gooseignore", e.Arg)
}

// Check reads a command line. It returns nil or a [*Refused]. It runs nothing and
// opens no file; it lists directories for globs.
func Check(command string, o Options) error {
	c := &checker{o: o, words: maxWords, lists: maxLists, entries: maxEntries}
	c.at(o.WorkingDir)
	if o.Words || runtime.GOOS == "windows" {
		return c.scan(command)
	}
	return c.script(command, 0)
}

// The bounds of one check. What is beyond them is not read.
const (
	maxWords   = 5000   // that are expanded
	maxLists   = 200    // directories that are listed
	maxEntries = 50_000 // that are in them
	maxDirs    = 8      // that a command names to cd
	maxDepth   = 8      // of commands within commands
)

// A checker is one Check.
type checker struct {
	o                     Options
	words, lists, entries int      // that may still be read
	dirs                  []string // that the command may be in, the last one last
	env                   expand.Environ
}

// touch refuses a word when it, or a part of it that programs take for a name, is a hidden file
// that exists. An empty program stands for one that is not known.
func (c *checker) touch(word, program string) error {
	for _, name := range pieces(word) {
		for _, dir := range c.dirs {
			abs, ok := c.abs(dir, name)
			if !ok {
				continue
			}
			if _, err := os.Lstat(abs); err != nil || isBare(name) && isDir(abs) {
				continue
			}
			if c.hidden(abs) || isRules(abs) && !lookers[program] {
				return &Refused{Arg: name}
			}
		}
	}
	return nil
}

// create refuses a name that would become a hidden file, or change what is hidden.
func (c *checker) create(name string) error {
	for _, dir := range c.dirs {
		if abs, ok := c.abs(dir, name); ok && (c.hidden(abs) || isRules(abs)) {
			return &Refused{Arg: name}
		}
	}
	return nil
}

func (c *checker) hidden(abs string) bool {
	_, restricted := errors.AsType[*files.RestrictedError](c.o.Files.Check(abs))
	return restricted
}

// abs returns the path that a name in a directory stands for; ok is false when it can
// be none.
func (c *checker) abs(dir, name string) (string, bool) {
	if name == "" || len(name) > 4096 || strings.Contains(name, "\x00") {
		return "", false
	}
	if rest, ok := strings.CutPrefix(name, "~"); ok && c.o.HomeDir != "" && (rest == "" || rest[0] == '/') {
		name = c.o.HomeDir + rest // some programs expand it themselves
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.Clean(name), true
}

// enter adds a directory that the command goes to.
func (c *checker) enter(name string) {
	for _, dir := range c.dirs {
		abs, ok := c.abs(dir, name)
		if ok && isDir(abs) && len(c.dirs) <= maxDirs {
			c.at(abs)
		}
	}
}

func (c *checker) at(dir string) {
	c.dirs = append(c.dirs, dir)
	c.env = expand.ListEnviron(slices.Concat(c.o.Environment, []string{"HOME=" + c.o.HomeDir, "PWD=" + dir})...)
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// isRules reports whether a file says what is hidden.
func isRules(name string) bool { return strings.EqualFold(filepath.Base(name), ".gooseignore") }

// isBare reports whether a word need not be a path.
func isBare(word string) bool { return !strings.ContainsAny(word, `/\.~*?[`) }

// pieces lists the parts of a word that may be names: "if=.env", "@.env", "--file=.env",
// "HEAD:.env", "a,.env".
func pieces(word string) []string {
	if excludes.MatchString(word) {
		return nil
	}
	all := []string{word}
	for piece := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune("=:@,+", r) }) {
		if piece != word {
			all = append(all, piece)
		}
	}
	if _, path, ok := strings.Cut(word, "="); ok {
		all = append(all, path)
	}
	return all
}

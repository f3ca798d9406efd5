// Package guard reads a command line before it runs and refuses one that names a
// file which the ignore rules hide.
//
// [Check] is all there is. It parses the line as a shell would (quotes, escapes,
// redirections, globs, braces, variables, here-documents, commands within
// commands), follows "cd" and assignments, resolves links, and looks at every
// argument that is the name of an existing file.
//
// It is a guard, not enforcement. It says no to what an agent does without
// thinking, at once and with a reason, and it can be talked around: a script, a
// compiler, a program that opens a file under a name it computes. What such
// programs do only the kernel can see; that is the sandbox's enforcement. The
// table in bypass_test.go says which of the known tricks are caught here and which
// are left to the kernel.
//
// What it does not refuse, on purpose:
//
//   - the program itself when the shell finds it in PATH;
//   - words of echo and printf, which open no file, unless they feed a program
//     that takes names or commands from its input;
//   - a word without slash or dot that is the name of a hidden directory, except
//     for programs that work on files: in "go build" and "make build" it is no
//     path, in "ls build" it is.
package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"mvdan.cc/sh/v3/syntax"

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
	// HomeDir is what ~ and $HOME stand for; empty leaves them unknown.
	HomeDir string
	// Environment is what it inherits, as NAME=VALUE. When it is nil, variables
	// that the command does not set are unknown; otherwise they are empty.
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
	c := &checker{o: o, words: maxWords, lists: maxLists, entries: maxNames, bytes: maxBytes, source: maxSource}
	if o.Words || runtime.GOOS == "windows" {
		return c.scan(command, o.WorkingDir)
	}
	return c.script(command, newState(o), 0)
}

// The bounds of one check. A command beyond them is read as mere words.
const (
	maxWords  = 20_000 // that are expanded
	maxLists  = 500    // directories that are listed
	maxNames  = 50_000 // that are in them
	maxScans  = 100    // directories that are listed for a line of mere words
	maxDepth  = 8      // of commands within commands
	maxValues = 64     // of a loop that are followed
	maxValue  = 1024   // bytes of a variable; longer ones are no paths
	maxBytes  = 8 << 20
	maxSource = 256 << 10 // of commands within commands
	// The parser recurses, and Go ends a process whose stack is too deep. A longer
	// command is most often a file that is written by a here-document.
	maxParsed  = 64 << 10 // bytes
	maxNesting = 500      // of brackets
)

// A checker is one Check.
type checker struct {
	o              Options
	words          int // that may still be expanded
	lists, entries int // directories, and names in them, that may still be listed
	bytes          int // that variables may still become
	source         int // bytes of commands within commands that may still be read
}

// errBounds ends the reading of a line that is too much.
var errBounds = errors.New("the command is too long to be understood")

// script reads a program in the shell's language. What no shell could parse, or
// nobody could finish, is taken for words.
func (c *checker) script(text string, st *state, depth int) error {
	if depth > 0 {
		if c.source -= len(text); c.source < 0 {
			return errBounds
		}
	}
	if depth > maxDepth || len(text) > maxParsed || nesting(text) > maxNesting {
		return c.scanAll(text, st)
	}
	for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangZsh, syntax.LangMirBSDKorn} {
		tree, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
		if err != nil {
			continue
		}
		err = c.run(tree.Stmts, st, depth)
		if errors.Is(err, errBounds) && depth == 0 {
			return c.scanAll(text, st)
		}
		return err
	}
	return c.scanAll(text, st)
}

// nesting is how deep brackets are within each other, at most.
func nesting(text string) int {
	depth, most := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			depth++
			most = max(most, depth)
		case ')', '}', ']':
			depth = max(depth-1, 0)
		}
	}
	return most
}

// touch refuses a name that leads to a hidden file which exists.
func (c *checker) touch(dir, name string) error {
	abs, ok := c.exists(dir, name)
	if ok && c.hidden(abs) {
		return &Refused{Arg: name}
	}
	return nil
}

// create refuses a name that would become a hidden file, or change what is hidden.
func (c *checker) create(dir, name string) error {
	abs, ok := c.abs(dir, name)
	if ok && (c.hidden(abs) || isRules(abs)) {
		return &Refused{Arg: name}
	}
	return nil
}

func (c *checker) hidden(abs string) bool {
	_, restricted := errors.AsType[*files.RestrictedError](c.o.Files.Check(abs))
	return restricted
}

// exists says whether a name in a directory is a file's, and its path.
func (c *checker) exists(dir, name string) (string, bool) {
	abs, ok := c.abs(dir, name)
	if !ok {
		return "", false
	}
	_, err := os.Lstat(abs)
	return abs, err == nil
}

// abs is the path that a name in a directory stands for; ok is false when it can
// be none.
func (c *checker) abs(dir, name string) (string, bool) {
	if name == "" || len(name) > 4096 || strings.Contains(name, "\x00") {
		return "", false
	}
	if rest, ok := strings.CutPrefix(name, "~+/"); ok {
		name = rest // the shell's name for where it is
	}
	if rest, ok := strings.CutPrefix(name, "~-/"); ok {
		name = filepath.Join(c.o.WorkingDir, rest) // and for where it was
	}
	if rest, ok := strings.CutPrefix(name, "~"); ok && c.o.HomeDir != "" && (rest == "" || rest[0] == '/') {
		name = c.o.HomeDir + rest // some programs expand it themselves
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.Clean(name), true
}

// isRules says that a file says what is hidden.
func isRules(name string) bool { return strings.EqualFold(filepath.Base(name), ".gooseignore") }

package guard

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// The parser recurses, and Go ends a process whose stack is too deep. A longer command is
// most often a file that is written by a here-document.
const (
	maxParsed  = 64 << 10 // bytes
	maxNesting = 500      // of brackets
)

var (
	// excludes find flags that leave something out, or are about names.
	excludes = regexp.MustCompile(`^-.*(?i:exclude|ignore)|^-i?(path|name|wholename)$`)
	// giveCode find flags before a word of code.
	giveCode = regexp.MustCompile(`^(-[A-Za-z]*[ce]|--?(eval|command))$`)
	// lookers only look, and may look at the rules themselves.
	lookers = set("bat", "cat", "cmp", "diff", "egrep", "fgrep", "file", "grep", "head", "less", "ls", "more", "nl", "rg", "stat", "tail", "test", "wc", "[")
	// silent programs print their words and open none of them.
	silent = set("echo", "printf", ":", "true", "false")
	// movers go to a directory before something else is done.
	movers = set("cd", "pushd", "-C", "--directory")
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// script reads a program in the shell's language. What no shell could parse, or nobody
// could finish, is taken for words.
func (c *checker) script(text string, depth int) error {
	if depth > maxDepth || len(text) > maxParsed || nesting(text) > maxNesting {
		return c.scan(text)
	}
	for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangZsh, syntax.LangMirBSDKorn} {
		tree, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
		if err == nil {
			return c.walk(tree, depth)
		}
	}
	return c.scan(text)
}

// Programs returns the programs that a command line calls, as it names them: none when no
// shell could parse it.
func Programs(command string) (names []string) {
	if len(command) > maxParsed || nesting(command) > maxNesting {
		return nil
	}
	tree, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil {
		return nil
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			names = append(names, call.Args[0].Lit())
		}
		return true
	})
	return names
}

// nesting returns how deep brackets are within each other, at most.
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

// walk looks at every word of a program, in the order in which they are written.
func (c *checker) walk(tree *syntax.File, depth int) (err error) {
	programs, skip := map[*syntax.Word]string{}, map[*syntax.Word]bool{}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			err = errors.Join(err, c.call(n, programs, skip, depth))
		case *syntax.Redirect:
			skip[n.Hdoc] = true
			switch n.Op {
			case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
				skip[n.Word] = true
			case syntax.RdrIn:
				programs[n.Word] = "cat"
			default:
				err = errors.Join(err, each(c.fields(n.Word), c.create))
			}
		case *syntax.Word:
			if !skip[n] {
				err = errors.Join(err, each(c.fields(n), func(word string) error { return c.touch(word, programs[n]) }))
			}
		}
		return err == nil
	})
	if refused, ok := errors.AsType[*Refused](err); ok {
		return refused
	}
	return nil
}

func each(words []string, f func(string) error) error {
	for _, w := range words {
		if err := f(w); err != nil {
			return err
		}
	}
	return nil
}

// call says of the words of a command which program they are for and which are no names, and
// reads those that are commands.
func (c *checker) call(call *syntax.CallExpr, programs map[*syntax.Word]string, skip map[*syntax.Word]bool, depth int) error {
	program, before := "", ""
	for i, w := range call.Args {
		word := strings.Join(c.fields(w), " ")
		if i == 0 {
			program = filepath.Base(word)
			skip[w] = !strings.Contains(word, "/")
		}
		programs[w] = program
		skip[w] = skip[w] || silent[program] || excludes.MatchString(before) && !strings.Contains(before, "=")
		if movers[before] {
			c.enter(word)
		}
		if err := c.code(program, before, word, depth); err != nil {
			return err
		}
		before = word
	}
	return nil
}

// code reads a word that is a command itself, or a program in another language.
func (c *checker) code(program, before, word string, depth int) error {
	switch given := giveCode.MatchString(before); {
	case !given && program != "eval" || !strings.ContainsAny(word, " '\"("):
		return nil
	case program == "eval" || strings.HasSuffix(program, "sh"):
		return c.script(word, depth+1)
	}
	return c.scan(word)
}

// fields returns the arguments that a word becomes, in the directory that was named last.
func (c *checker) fields(w *syntax.Word) (all []string) {
	if w == nil {
		return nil
	}
	cfg := &expand.Config{
		Env: c.env, ReadDir2: c.list, ExtGlob: true,
		CmdSubst:  func(io.Writer, *syntax.CmdSubst) error { return nil },
		ProcSubst: func(*syntax.ProcSubst) (string, error) { return "", nil },
	}
	for f, err := range expand.FieldsSeq(cfg, w) {
		if c.words--; c.words < 0 || err != nil {
			break
		}
		all = append(all, f)
	}
	return all
}

// list reads a directory for a glob: a bounded number of entries, and never a pipe.
func (c *checker) list(name string) ([]fs.DirEntry, error) {
	info, err := os.Stat(name)
	switch c.lists--; {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, syscall.ENOTDIR
	case c.lists < 0:
		return nil, fs.ErrNotExist
	}
	d, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(max(c.entries, 1))
	c.entries -= len(entries)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

package guard

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// fields are the arguments that words become in a directory: without quotes, with
// braces, variables and globs expanded. What cannot be expanded stays as written.
func (c *checker) fields(words []*syntax.Word, st *state, dir string) ([]string, error) {
	cfg := c.config(st, dir)
	var all []string
	for _, w := range words {
		for f, err := range expand.FieldsSeq(cfg, w) {
			if c.words--; c.words < 0 {
				return nil, errBounds
			}
			if errors.Is(err, errBounds) {
				return nil, err
			}
			if err != nil {
				all = append(all, source(w))
				break
			}
			all = append(all, f)
			all = append(all, alternatives(f)...)
		}
	}
	return all, nil
}

// extended are the patterns of bash's extglob, which the library parses and does
// not expand.
var extended = regexp.MustCompile(`^(.*?)[@?+*]\(([^()]*)\)(.*)$`)

// alternatives are the names that an extended glob may stand for.
func alternatives(field string) []string {
	if len(field) > 1000 || strings.Count(field, "(") > 3 || strings.Count(field, "|") > 16 {
		return nil
	}
	m := extended.FindStringSubmatch(field)
	if m == nil {
		return nil
	}
	var all []string
	for part := range strings.SplitSeq(m[2], "|") {
		name := m[1] + part + m[3]
		if more := alternatives(name); more != nil {
			all = append(all, more...)
		} else {
			all = append(all, name)
		}
	}
	return all
}

// value is what a word is as the value of a variable, or a here-document.
func (c *checker) value(w *syntax.Word, st *state, dir string, document bool) string {
	if w == nil {
		return ""
	}
	literal := expand.Literal
	if document {
		literal = expand.Document
	}
	if s, err := literal(c.config(st, dir), w); err == nil {
		return s
	}
	return source(w)
}

func (c *checker) config(st *state, dir string) *expand.Config {
	env := environ{state: st, c: c, dir: dir}
	return &expand.Config{
		Env:       env,
		ReadDir2:  c.list,
		GlobStar:  true,
		DotGlob:   st.dots,
		ExtGlob:   true,
		CmdSubst:  func(w io.Writer, s *syntax.CmdSubst) error { return c.substitute(w, s, st, dir) },
		ProcSubst: func(*syntax.ProcSubst) (string, error) { return unknown, nil },
	}
}

// list is a directory for a glob: a bounded number of entries, and never the open
// of a pipe.
func (c *checker) list(name string) ([]fs.DirEntry, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	if c.lists--; c.lists < 0 {
		return nil, errBounds
	}
	d, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(max(c.entries, 1))
	if c.entries -= len(entries); c.entries < 0 {
		return nil, errBounds
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

// substitute is what "$(...)" prints, where that can be known without running it.
func (c *checker) substitute(w io.Writer, s *syntax.CmdSubst, st *state, dir string) error {
	out := unknown
	if len(s.Stmts) == 1 {
		if printed, ok := c.printed(s.Stmts[0], st, dir); ok {
			out = printed
		}
	}
	_, err := io.WriteString(w, out)
	return err
}

// printed is what a statement prints, when it is one that prints its arguments.
func (c *checker) printed(s *syntax.Stmt, st *state, dir string) (string, bool) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || len(s.Redirs) > 0 {
		return "", false
	}
	f, err := c.fields(call.Args, st, dir)
	if err != nil || len(f) == 0 {
		return "", false
	}
	switch args := f[1:]; f[0] {
	case "pwd":
		return dir, true
	case "echo":
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			args = args[1:]
		}
		return strings.Join(args, " "), true
	case "printf":
		return printf(args)
	}
	return "", false
}

// wide finds formats with a width.
var wide = regexp.MustCompile(`%[^a-zA-Z%]*[0-9*]`)

// printf is the shell's, which repeats its format.
func printf(args []string) (string, bool) {
	if len(args) == 0 {
		return "", false
	}
	format, args := args[0], args[1:]
	if wide.MatchString(format) {
		return "", false // it could ask for gigabytes of blanks
	}
	var b strings.Builder
	for range maxValues {
		s, n, err := expand.Format(nil, format, args)
		if err != nil {
			return "", false
		}
		b.WriteString(s)
		if args = args[min(n, len(args)):]; n == 0 || len(args) == 0 {
			return b.String(), true
		}
	}
	return "", false
}

// source is a word as it was written, more or less.
func source(n syntax.Node) string {
	var b bytes.Buffer
	if err := syntax.NewPrinter().Print(&b, n); err != nil {
		return ""
	}
	return b.String()
}

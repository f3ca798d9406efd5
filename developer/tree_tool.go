package developer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"gander.dev/gander/developer/files"
	"gander.dev/gander/sandbox/rules/ignore"
)

const treeSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "TreeParams",
  "type": "object",
  "properties": {
    "path": {"type": "string"},
    "depth": {"type": "integer", "format": "uint32", "minimum": 0, "default": 2}
  },
  "required": ["path"]
}`

// treeTool is the tree of goose 1.52. Besides what .gitignore names it leaves out
// what .gooseignore hides.
func treeTool(s *Spaces) Tool {
	return Tool{
		Name:        "tree",
		Title:       "Tree",
		Description: "List a directory tree with line counts. Traversal respects .gitignore rules.",
		InputSchema: json.RawMessage(treeSchema),
		Hints:       &Hints{ReadOnly: true, Idempotent: true},
		Call: func(ctx context.Context, call Call) (Result, error) {
			var name *string
			if err := currentArguments(call, "path", &name); err != nil {
				return currentAnswer("", err), nil
			}
			depth, err := treeDepth(call)
			if err != nil {
				return currentAnswer("", err), nil
			}
			space, err := s.For(call.WorkingDir)
			if err != nil {
				return currentAnswer("", err), nil
			}
			text, err := listTree(ctx, space, *name, depth)
			if ctx.Err() != nil {
				return Result{}, ctx.Err()
			}
			return currentAnswer(text, err), nil
		},
	}
}

func treeDepth(call Call) (uint32, error) {
	members, err := argumentMembers(call.Arguments)
	depth := new(uint32(2))
	if err == nil {
		err = argument(members, "depth", &depth)
	}
	if err == nil && depth == nil {
		err = errors.New("invalid type: null, expected u32")
	}
	if err != nil {
		return 0, badArguments(err)
	}
	return *depth, nil
}

func listTree(ctx context.Context, space *files.Space, name string, depth uint32) (string, error) {
	root := space.Abs(name)
	info, err := space.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", currentError("Path does not exist: %s", root)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", currentError("Path is not a directory: %s", root)
	}
	w := treeWalk{ctx: ctx, space: space, left: maxTreeEntries}
	if depth > 0 {
		w.depth = int(depth) + 1 // goose shows one level more than it says
	}
	base, rules := w.rulesAbove(root)
	node := w.dir(root, base, rules, 1)
	var b strings.Builder
	node.render(&b, "")
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case b.Len() == 0:
		return "(empty directory)", nil
	case w.left <= 0:
		fmt.Fprintf(&b, "... stopped after %d entries; look at a directory below, or with a smaller depth\n", maxTreeEntries)
	}
	return b.String(), nil
}

// maxTreeEntries bounds a tree.
const maxTreeEntries = 20_000

// A treeNode is a directory in a tree.
type treeNode struct {
	name        string
	dirs, files []treeNode
	lines       int // of it and all below
}

func (n treeNode) render(b *strings.Builder, indent string) {
	for _, d := range n.dirs {
		fmt.Fprintf(b, "%s%s/  %s\n", indent, d.name, treeLines(d.lines))
		d.render(b, indent+"  ")
	}
	for _, f := range n.files {
		fmt.Fprintf(b, "%s%s  %s\n", indent, f.name, treeLines(f.lines))
	}
}

func treeLines(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("[%dK]", n/1000)
	}
	return fmt.Sprintf("[%d]", n)
}

// A treeWalk makes a tree.
type treeWalk struct {
	ctx   context.Context
	space *files.Space
	depth int // levels to show; 0: all
	left  int // entries that may still be shown
}

// treeRules are the lines of .gitignore and .ignore that hold in a directory.
type treeRules struct {
	sources []ignore.Source
	matcher *ignore.Matcher
}

// dir is a directory with what is below it. rel is its path from where the rules
// begin, slash-separated.
func (w *treeWalk) dir(abs, rel string, rules treeRules, level int) (node treeNode) {
	rules = w.with(rules, abs, rel)
	entries, err := w.space.ReadDir(abs)
	if err != nil {
		return node // unreadable: shown as empty, as goose does
	}
	for _, e := range entries {
		if w.ctx.Err() != nil || w.left <= 0 {
			return node
		}
		below := path.Join(rel, e.Name())
		if strings.HasPrefix(e.Name(), ".") || rules.matcher.Ignored(below, e.IsDir()) || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		w.left--
		child := treeNode{name: e.Name()}
		switch {
		case !e.IsDir():
			child.lines = w.lines(filepath.Join(abs, e.Name()))
			node.files = append(node.files, child)
		case w.depth == 0 || level < w.depth:
			child = w.dir(filepath.Join(abs, e.Name()), below, rules, level+1)
			child.name = e.Name()
			fallthrough
		default:
			node.dirs = append(node.dirs, child)
		}
		node.lines += child.lines
	}
	return node
}

// rulesAbove are the rules of the directories that a tree is in, down from the top
// of its repository; outside of one there are none. base is the tree's path from
// there.
func (w *treeWalk) rulesAbove(root string) (base string, rules treeRules) {
	rules.matcher = new(ignore.Matcher)
	top := repository(root)
	if top == "" {
		return "", rules
	}
	if text, ok := w.text(filepath.Join(top, ".git", "info", "exclude")); ok {
		rules.sources = append(rules.sources, ignore.Source{File: "exclude", Text: text})
	}
	rel, err := filepath.Rel(top, root)
	if err != nil || rel == "." {
		return "", rules
	}
	at := ""
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		rules = w.with(rules, filepath.Join(top, filepath.FromSlash(at)), at)
		at = path.Join(at, part)
	}
	if rules.matcher.Ignored(at, true) {
		return "", treeRules{matcher: new(ignore.Matcher)} // asked for by name: what is in it is to be seen
	}
	return at, rules
}

// repository is the nearest directory with a .git in it, or empty.
func repository(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// with adds the rules files of a directory.
func (w *treeWalk) with(rules treeRules, abs, rel string) treeRules {
	sources := rules.sources[:len(rules.sources):len(rules.sources)]
	for _, name := range []string{".gitignore", ".ignore"} {
		if text, ok := w.text(filepath.Join(abs, name)); ok {
			sources = append(sources, ignore.Source{File: name, Dir: rel, Text: text})
		}
	}
	if len(sources) == len(rules.sources) && len(sources) > 0 && rel != "" {
		return rules
	}
	return treeRules{sources, ignore.Compile(sources, ignore.Options{})}
}

func (w *treeWalk) text(abs string) (string, bool) {
	data, _, err := w.space.ReadFile(abs, 1<<20)
	return string(data), err == nil
}

// lines counts the lines of a file; what is no text has none. It needs the same
// memory for files of any size.
func (w *treeWalk) lines(abs string) int {
	f, err := w.space.Open(abs)
	if err != nil {
		return 0
	}
	defer f.Close()
	n, open, buf, kept := 0, false, make([]byte, 64<<10), 0
	for w.ctx.Err() == nil {
		m, err := f.Read(buf[kept:])
		chunk := buf[:kept+m]
		whole := len(chunk) - partialRune(chunk)
		if !utf8.Valid(chunk[:whole]) {
			return 0
		}
		n += bytes.Count(chunk[kept:], []byte("\n"))
		if m > 0 {
			open = chunk[len(chunk)-1] != '\n'
		}
		kept = copy(buf, chunk[whole:])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0
		}
	}
	if kept > 0 {
		return 0
	}
	if open {
		n++
	}
	return n
}

// partialRune is how many bytes at the end begin a rune that goes on after them.
func partialRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

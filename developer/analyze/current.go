package analyze

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/developer/files"
)

// currentBytes is how much goose 1.52 shows without being forced.
const currentBytes = 50_000

// A RefusedError is an answer that says why there is none; its text is for the model.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Current answers as the analyze extension of goose 1.52 does. A [*RefusedError]
// says that the file cannot be analysed, or that the answer would be too large.
func (a *Analyzer) Current(ctx context.Context, space *files.Space, r Request) (string, error) {
	all, err := a.scan(ctx, space, r)
	if err != nil {
		return "", err
	}
	var text string
	switch {
	case r.Focus != "":
		text, err = currentFocus(ctx, r, all)
	case r.Dir:
		text = currentStructure(r, all)
	default:
		text, err = currentFile(all[0])
	}
	if err != nil {
		return "", err
	}
	if len(text) > currentBytes && !r.Force {
		return "", &RefusedError{fmt.Sprintf("Output too large (%d chars, limit %d). Use `force: true` to override, or narrow scope with max_depth/focus.", len(text), currentBytes)}
	}
	return text, nil
}

// hidden says that goose 1.52 does not look at a file: its name, or that of a
// directory on the way, begins with a dot.
func (f *file) hidden() bool {
	return slices.ContainsFunc(strings.Split(f.name, string(filepath.Separator)), func(s string) bool { return strings.HasPrefix(s, ".") })
}

// currentFiles sorts the files into those that were parsed, those that nothing can
// parse, and those that could have been parsed but for a problem.
func currentFiles(r Request, all []*file) (parsed []*file, unparsed int, problems []string) {
	for _, f := range all {
		switch {
		case r.Dir && f.hidden():
		case f.problem != "" && !f.unparsed:
			problems = append(problems, f.name+": "+f.problem)
		case f.unparsed:
			unparsed++
		default:
			parsed = append(parsed, f)
		}
	}
	return parsed, unparsed, problems
}

func currentStructure(r Request, all []*file) string {
	parsed, unparsed, problems := currentFiles(r, all)
	var b strings.Builder
	var lines, funcs, types int
	perTag := map[string]int{}
	for _, f := range parsed {
		lines += f.lines
		funcs += f.count(f.funcs, currentOnly)
		types += f.count(f.types, currentOnly)
		perTag[f.tag] += f.lines
	}
	depth := fmt.Sprintf("depth=%d", r.MaxDepth)
	if r.MaxDepth == 0 {
		depth = "unlimited"
	}
	fmt.Fprintf(&b, "%d files, %dL, %dF, %dC (%s)\n", len(parsed), lines, funcs, types, depth)
	if unparsed > 0 {
		fmt.Fprintf(&b, "(%d files skipped: no parser)\n", unparsed)
	}
	writeProblems(&b, problems)
	if shares := shares(perTag, lines, "%s %d%%"); len(shares) > 0 {
		b.WriteString(strings.Join(shares, " | ") + "\n")
	}
	b.WriteString("\n")
	writeTree(&b, treeOf(parsed), 0)
	return b.String()
}

// writeProblems names the files that could not be read as what they claim to be.
func writeProblems(b *strings.Builder, problems []string) {
	const most = 10
	if len(problems) == 0 {
		return
	}
	fmt.Fprintf(b, "(%d files not analyzed: %s", len(problems), strings.Join(problems[:min(most, len(problems))], ", "))
	if len(problems) > most {
		b.WriteString(", …")
	}
	b.WriteString(")\n")
}

// A tree is a directory of an overview.
type tree struct {
	name  string
	dirs  []*tree
	files []*file
}

// treeOf takes the files in the order of a walk.
func treeOf(all []*file) *tree {
	root := &tree{}
	for _, f := range all {
		at := root
		names := strings.Split(f.name, string(filepath.Separator))
		for _, name := range names[:len(names)-1] {
			if n := len(at.dirs); n == 0 || at.dirs[n-1].name != name {
				at.dirs = append(at.dirs, &tree{name: name})
			}
			at = at.dirs[len(at.dirs)-1]
		}
		at.files = append(at.files, f)
	}
	return root
}

// writeTree puts directories before files.
func writeTree(b *strings.Builder, t *tree, depth int) {
	indent := strings.Repeat("  ", depth)
	for _, dir := range t.dirs {
		b.WriteString(indent + dir.name + "/\n")
		writeTree(b, dir, depth+1)
	}
	for _, f := range t.files {
		b.WriteString(indent + filepath.Base(f.name) + f.currentCounts() + "\n")
	}
}

func (f *file) currentCounts() string {
	s := fmt.Sprintf(" [%dL, %dF", f.lines, f.count(f.funcs, currentOnly))
	if n := f.count(f.types, currentOnly); n > 0 {
		s += fmt.Sprintf(", %dC", n)
	}
	return s + "]"
}

func currentFile(f *file) (string, error) {
	if f.problem != "" || f.unparsed {
		reason := f.problem
		switch {
		case f.unparsed && slices.Contains(missing(), f.tag):
			reason = "this build of gander was made without cgo and cannot parse " + strings.Join(missing(), ", ")
		case f.unparsed || reason == notText:
			reason = "unsupported language or binary file"
		}
		return "", &RefusedError{fmt.Sprintf("Error: could not analyze %s (%s)", f.path, reason)}
	}
	var b strings.Builder
	b.WriteString(filepath.Base(f.path) + f.currentCounts() + "\n\n")
	writeList(&b, "C:", f.currentTypes())
	writeList(&b, "F:", f.currentFuncs())
	if len(f.imports) > 0 {
		var modules []string
		for _, i := range f.imports {
			if i.module == "" {
				i.module = moduleOf(i.text)
			}
			modules = append(modules, i.module)
		}
		b.WriteString("I: " + strings.Join(modules, "; ") + "\n")
	}
	return b.String(), nil
}

// writeList writes up to ten items in a line, more below each other.
func writeList(b *strings.Builder, title string, items []string) {
	switch {
	case len(items) == 0:
	case len(items) <= 10:
		b.WriteString(title + " " + strings.Join(items, " ") + "\n")
	default:
		b.WriteString(title + "\n  " + strings.Join(items, "\n  ") + "\n")
	}
}

func (f *file) currentTypes() (types []string) {
	for _, s := range f.types {
		if !s.to.has(currentOnly) {
			continue
		}
		text := fmt.Sprintf("%s:%d", s.name, s.line)
		if s.base != "" {
			text += "(" + s.base + ")"
		}
		if s.base != "" && len(s.fields) > 0 {
			text += " "
		}
		switch n := len(s.fields); {
		case n > 5:
			text += fmt.Sprintf("{%df}", n)
		case n > 0:
			text += "{" + strings.Join(s.fields, ",") + "}"
		}
		types = append(types, text)
	}
	return types
}

func (f *file) currentFuncs() (funcs []string) {
	called := f.timesCalled(currentOnly)
	for _, s := range f.funcs {
		if s.to.has(currentOnly) {
			funcs = append(funcs, fmt.Sprintf("%s:%d%s", signature(s), s.line, often(called[s.name])))
		}
	}
	return funcs
}

// signature is a function's name with its type's, what it takes and what it returns.
func signature(s symbol) string {
	text := s.name
	if s.owner != "" {
		text = s.owner + "." + s.name
	}
	switch empty := s.params == "" || s.params == "()"; {
	case empty && s.result != "":
		text += "()"
	case len(s.params) > 60:
		text += fmt.Sprintf("(%d args)", strings.Count(s.params, ",")+1)
	case !empty:
		text += s.params
	}
	if s.result != "" {
		text += "->" + cut(s.result, 30)
	}
	return text
}

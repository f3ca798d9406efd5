package analyze

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/developer/files"
)

// classicLines is how many lines classic goose showed without being forced.
const classicLines = 1000

// Classic answers as the developer extension of goose up to 1.25 did. large says
// that the answer is only a warning about the size of the real one.
func (a *Analyzer) Classic(ctx context.Context, space *files.Space, r Request) (text string, large bool, err error) {
	all, err := a.scan(ctx, space, r)
	if err != nil {
		return "", false, err
	}
	switch {
	case r.Focus != "":
		text, err = classicFocus(ctx, r, all)
	case r.Dir:
		text = classicStructure(r, all)
	default:
		text = classicFile(all[0])
	}
	if lines := strings.Count(text, "\n"); err == nil && lines > classicLines && !r.Force {
		return classicWarning(r, lines), true, nil
	}
	return text, false, err
}

func classicWarning(r Request, lines int) string {
	call := fmt.Sprintf("analyze(path=%q, force=true)", r.Path)
	if r.Focus != "" {
		call = fmt.Sprintf("analyze(path=%q, focus=%q, force=true)", r.Path, r.Focus)
	}
	return fmt.Sprintf("LARGE OUTPUT WARNING\n\nThe analysis has %d lines (about %d tokens), more than the %d that are shown unasked.\n\n"+
		"To see it all: %s\nTo see less: name a directory further down, a smaller max_depth, or a focus.\n", lines, lines*10, classicLines, call)
}

func classicStructure(r Request, all []*file) string {
	var b strings.Builder
	shown := slices.DeleteFunc(slices.Clone(all), func(f *file) bool { return f.tag == "" })
	var lines, funcs, types int
	perTag := map[string]int{}
	for _, f := range shown {
		lines += f.lines
		funcs += f.count(f.funcs, classicOnly)
		types += f.count(f.types, classicOnly)
		perTag[f.tag] += f.lines
	}
	depth := fmt.Sprintf("max_depth=%d", r.MaxDepth)
	if r.MaxDepth == 0 {
		depth = "unlimited depth"
	}
	fmt.Fprintf(&b, "SUMMARY:\nShown: %d files, %dL, %dF, %dC (%s)\n", len(shown), lines, funcs, types, depth)
	if shares := shares(perTag, lines, "%s (%d%%)"); len(shares) > 0 {
		fmt.Fprintf(&b, "Languages: %s\n", strings.Join(shares, ", "))
	}
	b.WriteString("\nPATH [LOC, FUNCTIONS, CLASSES] <FLAGS>\n")
	var above []string
	for _, f := range shown {
		above = writeParents(&b, above, f.name)
		b.WriteString(strings.Repeat("  ", len(above)) + filepath.Base(f.name) + f.classicCounts() + "\n")
	}
	return b.String()
}

// writeParents writes the directories of a file that the one before it was not in.
func writeParents(b *strings.Builder, above []string, name string) []string {
	dirs := strings.Split(name, string(filepath.Separator))
	dirs = dirs[:len(dirs)-1]
	for i, dir := range dirs {
		if i >= len(above) || !slices.Equal(above[:i+1], dirs[:i+1]) {
			b.WriteString(strings.Repeat("  ", i) + dir + "/\n")
		}
	}
	return dirs
}

// classicCounts is what follows a file's name in an overview.
func (f *file) classicCounts() string {
	s := fmt.Sprintf(" [%dL", f.lines)
	if n := f.count(f.funcs, classicOnly); n > 0 {
		s += fmt.Sprintf(", %dF", n)
	}
	if n := f.count(f.types, classicOnly); n > 0 {
		s += fmt.Sprintf(", %dC", n)
	}
	s += "]"
	if line := f.main(classicOnly); line > 0 {
		s += fmt.Sprintf(" main:%d", line)
	}
	if f.problem != "" {
		s += " not analyzed: " + f.problem
	} else if f.broken {
		s += " syntax errors"
	}
	return s
}

// shares are the languages with their parts of all lines, the largest first.
func shares(perTag map[string]int, lines int, format string) (shares []string) {
	tags := slices.Sorted(maps.Keys(perTag))
	slices.SortStableFunc(tags, func(a, b string) int { return perTag[b] - perTag[a] })
	for _, tag := range tags {
		if perTag[tag] > 0 {
			shares = append(shares, fmt.Sprintf(format, tag, perTag[tag]*100/lines))
		}
	}
	return shares
}

func classicFile(f *file) string {
	var b strings.Builder
	fmt.Fprintf(&b, "FILE: %s [%dL, %dF, %dC]\n\n", f.path, f.lines, f.count(f.funcs, classicOnly), f.count(f.types, classicOnly))
	if note := f.note(); note != "" {
		b.WriteString("NOTE: " + note + "\n\n")
	}
	var types []string
	for _, s := range f.types {
		if s.to.has(classicOnly) {
			types = append(types, fmt.Sprintf("%s:%d", s.name, s.line))
		}
	}
	if len(types) > 0 {
		b.WriteString("C: " + strings.Join(types, " ") + "\n\n")
	}
	if funcs := f.classicFuncs(); len(funcs) > 0 {
		b.WriteString("F: " + wrap(funcs) + "\n\n")
	}
	if len(f.imports) > 0 {
		b.WriteString("I: " + strings.Join(f.classicImports(), "; ") + "\n")
	}
	if refs := f.classicReferences(); len(refs) > 0 {
		b.WriteString("\nR: " + strings.Join(refs, "; ") + "\n")
	}
	return b.String()
}

// note says why little is known about a file.
func (f *file) note() string {
	switch {
	case f.problem != "":
		return "not analyzed: " + f.problem
	case f.unparsed && slices.Contains(missing(), f.tag):
		return fmt.Sprintf("not analyzed: this build of gander was made without cgo and cannot parse %s", strings.Join(missing(), ", "))
	case f.broken:
		return "the file has syntax errors; what could be understood follows"
	}
	return ""
}

func (f *file) classicFuncs() (funcs []string) {
	called := f.timesCalled(classicOnly)
	for _, s := range f.funcs {
		if !s.to.has(classicOnly) {
			continue
		}
		funcs = append(funcs, fmt.Sprintf("%s:%d%s", s.name, s.line, often(called[s.name])))
	}
	return funcs
}

// often marks a function that its own file calls more than three times.
func often(times int) string {
	if times <= 3 {
		return ""
	}
	return fmt.Sprintf("•%d", times)
}

// wrap joins words by spaces into lines of about 100 bytes, which go on below the
// first word.
func wrap(words []string) string {
	var b strings.Builder
	length := 3
	for i, word := range words {
		if i > 0 && length+len(word)+1 > 100 {
			b.WriteString("\n   ")
			length = 3
		}
		if i > 0 {
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
}

// classicImports groups the statements by what they begin with.
func (f *file) classicImports() (summary []string) {
	groups := map[string][]string{}
	var order []string
	for _, i := range f.imports {
		group := importGroup(i.text)
		if groups[group] == nil {
			order = append(order, group)
		}
		groups[group] = append(groups[group], i.text)
	}
	for _, group := range order {
		if n := len(groups[group]); n > 1 {
			summary = append(summary, fmt.Sprintf("%s(%d)", group, n))
		} else {
			summary = append(summary, cut(groups[group][0], 40))
		}
	}
	return summary
}

func importGroup(text string) string {
	words := strings.Fields(text)
	switch {
	case len(words) == 0:
		return ""
	case words[0] == "use":
		group, _, _ := strings.Cut(text, "::")
		return group
	case (words[0] == "import" || words[0] == "from") && len(words) > 1:
		return words[1]
	}
	return words[0]
}

// classicReferences lists how types are used.
func (f *file) classicReferences() (sections []string) {
	for kind := range referenceKinds {
		var names []string
		for _, r := range f.refs {
			if r.kind == kind && r.owner != "" {
				names = append(names, fmt.Sprintf("%s(%s)", r.name, r.owner))
			} else if r.kind == kind {
				names = append(names, r.name)
			}
		}
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 0 {
			title := [referenceKinds]string{"methods", "types", "fields", "vars", "params"}[kind]
			sections = append(sections, fmt.Sprintf("%s[%s]", title, strings.Join(names, " ")))
		}
	}
	return sections
}

package confine

import (
	"fmt"
	"strings"

	"gander.dev/gander/sandbox"
)

// sayClosed says in a clause what rules close; it is empty where they close nothing.
func sayClosed(c sandbox.ClosedFiles) string {
	more := ""
	if c.Partial {
		more = "at least "
	}
	by := ".gooseignore closes"
	if c.Default {
		by = "gander's default rules close"
	}
	switch c.Count {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s %s%s", by, more, SomeOf(c.Examples, 1))
	}
	return fmt.Sprintf("%s %s%d files and directories (%s)", by, more, c.Count, SomeOf(c.Examples, c.Count))
}

// maxExamples is how many names a notice has.
const maxExamples = 3

// SomeOf returns a few of n names, printable whatever they are.
func SomeOf(names []string, n int) string {
	var out []string
	for _, name := range names[:min(len(names), maxExamples)] {
		out = append(out, Printable(name))
	}
	if n > len(out) {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}

// maxName bounds a name in a notice, in bytes.
const maxName = 120

// Printable returns a name that somebody else chose, for people: without what a
// terminal would obey.
func Printable(name string) string {
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	quoted := fmt.Sprintf("%q", name)
	if quoted == `"`+name+`"` {
		return name
	}
	return quoted
}

package editor

import (
	"fmt"
	"strings"
	"syscall"
)

// SetContent makes bytes the content of a file, as the write of goose 1.52: no
// care for style. created says that there was no such file.
func (e *Editor) SetContent(f Files, name, content string) (created bool, err error) {
	err = e.edit(f, name, "write", func(now file) ([]byte, error) {
		created = now.missing
		return []byte(content), nil
	})
	return created, err
}

// Swap replaces the only occurrence of a text, as the edit of goose 1.52. When it
// is not there, or several times, the error shows parts of the file, in goose's
// words. Unlike goose it keeps the ends of lines of the file.
func (e *Editor) Swap(f Files, name, before, after string) error {
	return e.edit(f, name, "read", func(now file) ([]byte, error) {
		if now.missing {
			return nil, failed("read", syscall.ENOENT)
		}
		t, err := decode(now.data)
		if err != nil {
			return nil, failed("read", err)
		}
		plain, sought := t.plain(), toLF(before)
		switch offset, n := t.locate(plain, before); n {
		case 0:
			return nil, &InvalidError{noMatch(t.lines, sought)}
		case 1:
			t, _, err = t.replaceAt(plain, offset, len(sought), toLF(after))
			return t.bytes(), err
		default:
			return nil, &InvalidError{manyMatches(t.lines, plain, sought, n)}
		}
	})
}

// previewLines are how many lines of a file are shown when a text is not in it.
const previewLines = 20

func noMatch(lines []line, before string) string {
	s := "No match found for the specified text."
	if at, ok := alike(lines, before); ok {
		s += "\n\nDid you mean:\n```\n" + around(lines, at, 2) + "\n```"
	}
	preview := "(file is empty)"
	if len(lines) > 0 {
		var rows []string
		for i, l := range lines[:min(len(lines), previewLines)] {
			rows = append(rows, fmt.Sprintf("%4d: %s", i+1, l.text))
		}
		preview = strings.Join(rows, "\n")
	}
	if more := len(lines) - previewLines; more > 0 {
		preview += fmt.Sprintf("\n... (%d more lines)", more)
	}
	return s + "\n\nFile preview:\n```\n" + preview + "\n```"
}

// alike is the first line that contains the first line of a text, or is contained
// in it. An empty line is contained in everything and says nothing.
func alike(lines []line, before string) (at int, ok bool) {
	first, _, _ := strings.Cut(before, "\n")
	if first = strings.TrimSpace(first); first == "" {
		return 0, false
	}
	for i, l := range lines {
		inside := strings.TrimSpace(l.text)
		if strings.Contains(l.text, first) || inside != "" && strings.Contains(first, inside) {
			return i, true
		}
	}
	return 0, false
}

func manyMatches(lines []line, plain, before string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Found %d matches. Please provide more context to identify a unique match:\n", n)
	starts := lineStarts(lines)
	from := 0
	for i := range min(n, 2) {
		at := from + strings.Index(plain[from:], before)
		place := lineOf(starts, at)
		fmt.Fprintf(&b, "\nMatch %d (line %d):\n```\n%s\n```", i+1, place+1, around(lines, place, 1))
		from = at + max(1, len(before))
	}
	if n > 2 {
		fmt.Fprintf(&b, "\n\n...and %d more", n-2)
	}
	return b.String()
}

// around is a line with n before and n after it.
func around(lines []line, at, n int) string {
	var rows []string
	for _, l := range lines[max(0, at-n):min(len(lines), at+n+1)] {
		rows = append(rows, l.text)
	}
	return strings.Join(rows, "\n")
}

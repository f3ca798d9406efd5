package chat

import (
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// A style colours text, unless it is plain.
type style struct{ plain bool }

func (s style) as(code, text string) string {
	if s.plain || text == "" {
		return text
	}
	return code + text + cli.Plain
}

// A writer turns an answer that comes in pieces into lines, each finished one styled as the
// Markdown that it is. A line of Markdown is understood without those below it, so that
// it can be shown while the answer still comes. Glamour, which renders more of it, would add
// 33 ms to the 48 ms of each start of gander: its lexers and styles are read as the program begins.
type writer struct {
	style style
	part  strings.Builder // of a line that has not ended
	fence string          // the marks that began a block of code; empty outside of one
	blank bool            // the last line was empty
}

// add takes a piece and returns the lines that are finished.
func (w *writer) add(piece string, width int) []string {
	w.part.WriteString(piece)
	text := w.part.String()
	end := strings.LastIndexByte(text, '\n')
	if end < 0 {
		return nil
	}
	w.part.Reset()
	w.part.WriteString(text[end+1:])
	var lines []string
	for line := range strings.SplitSeq(text[:end], "\n") {
		lines = w.line(lines, line, width)
	}
	return lines
}

// end returns the last line of a text, which has no end of line.
func (w *writer) end(width int) []string {
	text := w.part.String()
	w.part.Reset()
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return w.line(nil, text, width)
}

// rest returns the line that has not ended, wrapped.
func (w *writer) rest(width int) string {
	return ansi.Wrap(cli.Printable(w.part.String()), width, "")
}

func (w *writer) line(lines []string, line string, width int) []string {
	line = cli.Printable(strings.TrimRight(line, " \t\r"))
	if line == "" {
		if !w.blank {
			lines = append(lines, "")
		}
		w.blank = true
		return lines
	}
	w.blank = false
	return append(lines, w.styled(line, width))
}

var (
	fenceMark   = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	headingMark = regexp.MustCompile(`^(#{1,6}) +`)
	listMark    = regexp.MustCompile(`^( *)([-*+]|\d+[.)]) +`)
	codeSpan    = regexp.MustCompile("`[^`]+`")
	strongSpan  = regexp.MustCompile(`\*\*[^*\s](?:[^*]*[^*\s])?\*\*`)
)

func (w *writer) styled(line string, width int) string {
	if mark := fenceMark.FindStringSubmatch(line); mark != nil {
		switch {
		case w.fence == "":
			w.fence = mark[1]
		case strings.HasPrefix(mark[1], w.fence):
			w.fence = ""
		}
		return w.style.as(cli.Dim, line)
	}
	switch {
	case w.fence != "":
		return w.style.as(cyan, ansi.Hardwrap(line, width, true))
	case headingMark.MatchString(line):
		return w.style.as(cli.Bold, ansi.Wrap(line, width, ""))
	}
	indent := 0
	if mark := listMark.FindString(line); mark != "" {
		indent = len(mark)
	}
	wrapped := strings.Split(ansi.Wrap(line, max(width-indent, leastWidth), ""), "\n")
	text := strings.Join(wrapped, "\n"+strings.Repeat(" ", indent))
	text = codeSpan.ReplaceAllStringFunc(text, func(s string) string { return w.style.as(cyan, s) })
	return strongSpan.ReplaceAllStringFunc(text, func(s string) string {
		if w.style.plain {
			return s
		}
		return w.style.as(cli.Bold, strings.Trim(s, "*"))
	})
}

const cyan = "\x1b[36m"

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

const cyan = "\x1b[36m"

// A writer turns an answer that comes in pieces into lines for the terminal. It cuts the answer
// into blocks that Glamour, which renders no streams, can render one by one: a paragraph, a
// list, a table, a fenced code block. A block ends at an empty line, or where a fence does.
type writer struct {
	style style
	hide  func(string) string // takes secrets out, before colours or ends of lines cut them
	part  strings.Builder     // of a line that has not ended
	block []string            // the lines of the block that has not ended
	fence fence               // the code block that the last line is in
	list  bool                // the last line that is not indented is of a list
	blank bool                // the last line was empty
}

// mostLines bounds a block: what is longer is shown in parts.
const mostLines = 100

// add takes a piece and returns the lines of the blocks that are finished.
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
		lines = append(lines, w.line(line, width)...)
	}
	return lines
}

// end returns the lines of a text that ends here, whether its last block has an end or not.
func (w *writer) end(width int) []string {
	text := w.part.String()
	w.part.Reset()
	var lines []string
	if strings.TrimSpace(text) != "" {
		lines = w.line(text, width)
	}
	lines = append(lines, w.finish(width)...)
	w.fence, w.list = fence{}, false
	return lines
}

// rest returns the last lines, at most so many, of the block that has not ended, as they came.
func (w *writer) rest(width, most int) string {
	text := strings.Join(append(w.block[max(0, len(w.block)-most):len(w.block):len(w.block)], w.part.String()), "\n")
	text = text[max(0, len(text)-most*width*4):] // no character of a terminal's has more bytes
	return lastLines(ansi.Wrap(cli.Printable(w.hide(strings.TrimRight(text, "\n"))), width, ""), most)
}

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// line takes a line and returns the lines of the blocks that it ends.
func (w *writer) line(line string, width int) (lines []string) {
	line = strings.ReplaceAll(cli.Printable(w.hide(strings.TrimRight(line, " \t\r"))), "\t", "    ")
	switch {
	case w.fence.mark != "":
		w.block = append(w.block, line)
		if w.fence.endsAt(line) {
			w.fence = fence{}
			return w.finish(width)
		}
	case line == "":
		lines = w.finish(width)
		if !w.blank {
			lines = append(lines, "")
		}
		w.blank = true
		return lines
	default:
		next := fenceOf(line)
		if next.alone || w.list && len(w.block) > 0 && indentOf(line) < indentOf(w.block[0]) {
			lines = w.finish(width)
		}
		if line[0] != ' ' {
			w.list = listMark.MatchString(line)
		}
		w.fence, w.block = next, append(w.block, line)
	}
	w.blank = false
	if len(w.block) < mostLines {
		return lines
	}
	open := w.fence.line
	lines = append(lines, w.finish(width)...)
	if open != "" {
		w.block = append(w.block, open)
	}
	return lines
}

// finish renders the block and begins a new one. After an empty line, indented text continues
// an item of a list: it is a block of its own, shown with the same indentation.
func (w *writer) finish(width int) []string {
	block := w.block
	w.block = nil
	if len(block) == 0 {
		return nil
	}
	indent := 0
	if w.list {
		indent = min(indentOf(block[0]), width/2)
	}
	left := strings.Repeat(" ", indent)
	for i, line := range block {
		block[i] = strings.TrimPrefix(line, left)
	}
	lines := render(block, width-indent, w.style.plain)
	for i, line := range lines {
		if line != "" {
			lines[i] = left + line
		}
	}
	return lines
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// A fence is the first line of a fenced code block.
type fence struct {
	mark  string // the backticks or tildes; empty when there is no fence
	line  string
	alone bool // nothing is before the mark but spaces
}

var (
	fenceMark = regexp.MustCompile("^((?: |> ?|[-*+] |\\d+[.)] )*)(````*|~~~~*)[^`]*$")
	listMark  = regexp.MustCompile(`^(?:[-*+]|\d+[.)]) `)
)

func fenceOf(line string) fence {
	found := fenceMark.FindStringSubmatch(line)
	if found == nil {
		return fence{}
	}
	return fence{mark: found[2], line: line, alone: strings.TrimSpace(found[1]) == ""}
}

// endsAt reports whether a line is the fence's other end.
func (f fence) endsAt(line string) bool {
	line = strings.TrimLeft(line, " >")
	return strings.HasPrefix(line, f.mark) && strings.Trim(line, f.mark[:1]) == ""
}

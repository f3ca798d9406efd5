package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Printable replaces what could control a terminal, or hide what it says: output
// of tools and words of a model are not to be trusted with it.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if controls(r) {
			return '\ufffd'
		}
		return r
	}, s)
}

// controls says whether a terminal may obey a character, or show others in another order.
func controls(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// PrintableJSON is the same JSON without what could control a terminal: that can only be in
// strings, where it is escaped.
func PrintableJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if controls(r) || r == utf8.RuneError { // as what is no character is read, too
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// PlainOut is stdout, as printable has it where it is a terminal.
func (a *App) PlainOut() io.Writer {
	if IsTerminal(a.Out) {
		return &printableWriter{w: a.Out}
	}
	return a.Out
}

// printableWriter passes on what is printable. A character may come in pieces.
type printableWriter struct {
	w    io.Writer
	part []byte // of a character
}

func (p *printableWriter) Write(b []byte) (int, error) {
	text := append(p.part, b...)
	end := len(text)
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				end = i
			}
			break
		}
	}
	p.part = slices.Clone(text[end:])
	if _, err := io.WriteString(p.w, Printable(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// OneLine is the first line of a title, and a sign that there is more.
func OneLine(s string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if rest != "" {
		line += " …"
	}
	return line
}

func OneLineOf(text string) string { return strings.Join(strings.Fields(text), " ") }

// Excerpt is text in lines, the middle left out when there are more than limit.
func Excerpt(text string, limit int) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if len(lines) <= limit {
		return lines
	}
	head := limit / 2
	tail := limit - head - 1
	short := append([]string{}, lines[:head]...)
	short = append(short, fmt.Sprintf("… %d more lines …", len(lines)-head-tail))
	return append(short, lines[len(lines)-tail:]...)
}

// Fit cuts a line to a width, unless that is 0.
func Fit(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}

// FitEnd cuts the beginning of a line to leave a width, unless that is 0.
func FitEnd(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return "…" + string(runes[len(runes)-width+1:])
}

// TerminalWidth returns the width of a terminal; 0 when it is none.
func TerminalWidth(out any) int {
	f, ok := fileOf(out)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// WidthOf returns the number of columns of a stream; 80 where that cannot be known.
func WidthOf(stream io.Writer) int {
	if f, ok := fileOf(stream); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 80
}

// ShortDir is a directory with ~ for the person's own.
func ShortDir(dir string) string {
	own, err := os.UserHomeDir()
	if rest, ok := strings.CutPrefix(dir, own); err == nil && ok && own != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
		return "~" + rest
	}
	return dir
}

// Since is a length of time for people, in its largest unit.
func Since(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}

// RoundDuration makes a duration readable: 3ms, 450ms, 2.1s, 1m5s.
func RoundDuration(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// Megabytes returns a number of bytes in words.
func Megabytes(n uint64) string {
	if n < 1e9 {
		return fmt.Sprintf("%d MB", n/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// Count returns a number of things, of which one is named without the s.
func Count[N int | int64 | uint64](n N, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return fmt.Sprintf("%d %s", n, things)
}

// SomeOf names the first n of a list.
func SomeOf(list []string, n int) string {
	if len(list) > n {
		return strings.Join(list[:n], ", ") + fmt.Sprintf(" and %d more", len(list)-n)
	}
	return strings.Join(list, ", ")
}

func IsOrAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
}

// The colours of the stage.
const (
	Bold  = "\x1b[1m"
	Dim   = "\x1b[2m"
	Red   = "\x1b[31m"
	Green = "\x1b[32m"
	Plain = "\x1b[0m"
)

const Yellow = "\x1b[33m"

package editor

import (
	"fmt"
	"strings"
)

// snippetLines are how many lines are shown before and after a change.
const snippetLines = 4

// snippet shows the n lines from line at on, and their surroundings. With
// numbers, each line has its number before it.
func (t text) snippet(at, n int, numbers bool) string {
	from := max(0, at-snippetLines)
	to := min(len(t.lines), at+n+snippetLines)
	shown := make([]string, 0, max(0, to-from))
	for i := from; i < to; i++ {
		s := t.lines[i].text
		if numbers {
			s = fmt.Sprintf("%d: %s", i+1, s)
		}
		shown = append(shown, s)
	}
	return strings.Join(shown, "\n")
}

// Fence is a text between Markdown fences, with the tag of the file's language.
func Fence(path, s string) string {
	return "```" + Language(path) + "\n" + s + "\n```\n"
}

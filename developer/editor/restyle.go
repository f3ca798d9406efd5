package editor

import "strings"

// restyle makes a text the content of a file in the style of what was there. A
// text with CRLF in it says itself how its lines end. A new file, and one that was
// not text, gets the text with an end of its last line.
func restyle(was []byte, content string) text {
	old, err := decode(was)
	if err != nil {
		old = text{}
	}
	given, marked := strings.CutPrefix(content, bom)
	t := text{bom: marked || old.bom, lines: split(given)}
	if !strings.Contains(given, "\r\n") {
		t.lines = splice(old.lines, 0, len(old.lines), given)
	}
	if !old.open() {
		t.lines = closed(t.lines)
	}
	return t
}

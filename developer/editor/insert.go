package editor

// insert puts a text after line n (0: before the first), or for a negative n
// before the place that many from the end (-1: at the end). It becomes lines of
// its own: before others, what ends in a line feed is followed by an empty line, as
// in classic goose. at is the first new line, from 0.
func (t text) insert(n int64, s string) (out text, at int, err error) {
	s = toLF(s)
	total := int64(len(t.lines))
	place := n
	if n < 0 {
		place = total + 1 + n
	}
	if place < 0 || place > total {
		return t, 0, invalid("Insert line %d is beyond the end of the file (total lines: %d). Use 0 to insert at the beginning or %d to insert at the end.", n, total, total)
	}
	at = int(place)
	if at < len(t.lines) {
		return text{t.bom, splice(t.lines, at, at, s+"\n")}, at, nil
	}
	if t.open() {
		return text{t.bom, splice(t.lines, at-1, at, t.lines[at-1].text+"\n"+s)}, at, nil
	}
	return text{t.bom, closed(splice(t.lines, at, at, s))}, at, nil
}

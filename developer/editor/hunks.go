package editor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// A placed hunk is one whose place in the file is known.
type placed struct {
	hunk
	from, to int    // the lines of the file that it replaces
	skip     int    // context lines at its beginning that are left out of it
	keep     int    // how many of its lines are applied after them
	note     string // how the place differs from what the diff said; empty when it does not
}

// maxFuzz is how many context lines at both ends of a hunk may differ from the
// file, as with patch.
const maxFuzz = 2

// maxSearched bounds the lines that are looked through for hunks which are not where they
// say: as many hunks as fit in a diff, each looked for in all of a large file, take hours.
const maxSearched = 20_000_000

// patched applies all the hunks of a patch, or none. name is for messages.
func (t text) patched(hunks []hunk, name string) (out text, notes []string, err error) {
	places := make([]placed, 0, len(hunks))
	offset, left := 0, maxSearched
	for i, h := range hunks {
		place, ok := t.placeAsSaid(h, offset)
		if !ok {
			if len(h.old()) > 0 {
				left -= len(t.lines)
			}
			if left < 0 {
				err = errors.New("too many hunks before it were not at the lines that they say; apply them a few at a time")
			} else {
				place, err = t.place(h, offset)
			}
		}
		if err != nil {
			return t, nil, invalid("Hunk %d of %d for '%s' does not apply, and nothing was changed: %v", i+1, len(hunks), name, err)
		}
		if place.note != "" {
			notes = append(notes, fmt.Sprintf("Hunk %d of %s applied %s", i+1, name, place.note))
		}
		if h.start > 0 && place.to > place.from {
			offset = place.from - place.skip - (h.start - 1)
		}
		places = append(places, place)
	}
	slices.SortStableFunc(places, func(a, b placed) int { return a.from - b.from })
	if at, ok := separate(places); !ok {
		return t, nil, invalid("Two hunks for '%s' change the same lines (at line %d). Nothing was changed.", name, at+1)
	}
	return t.applied(places), notes, nil
}

// separate takes from hunks the context lines that they share with their
// neighbours. It is not ok when they share more: at is where.
func separate(places []placed) (at int, ok bool) {
	for i := 1; i < len(places); i++ {
		p, q := &places[i-1], &places[i]
		for q.from < p.to && p.keep > 0 && p.lines[p.skip+p.keep-1].op == gitdiff.OpContext {
			p.to--
			p.keep--
		}
		for q.from < p.to && q.keep > 0 && q.lines[q.skip].op == gitdiff.OpContext {
			q.from++
			q.skip++
			q.keep--
		}
		if q.from < p.to {
			return q.from, false
		}
	}
	return 0, true
}

// place finds where a hunk belongs: where it says, moved as the hunk before it was,
// or at the only other place that fits; then the same with less and less care for
// what is around the change. Several places that fit are an error, not a choice.
func (t text) place(h hunk, offset int) (placed, error) {
	old := h.old()
	if len(old) == 0 {
		return t.placeInsertion(h, offset)
	}
	lead, trail := h.context()
	for fuzz := 0; fuzz <= maxFuzz+1; fuzz++ {
		// 0: exact; 1: whatever the spaces at the ends of lines; 2, 3: without the
		// outermost one or two context lines.
		same := equal
		if fuzz > 0 {
			same = equalTrimmed
		}
		skip, drop := min(lead, max(0, fuzz-1)), min(trail, max(0, fuzz-1))
		part := old[skip : len(old)-drop]
		if fuzz > 1 && !slices.ContainsFunc(part, func(s string) bool { return strings.TrimSpace(s) != "" }) {
			break
		}
		at, err := t.find(part, h.start-1+skip, offset, h.start > 0, fuzz > 1, same)
		if err != nil {
			return placed{}, err
		}
		if at >= 0 {
			p := placed{hunk: h, from: at, to: at + len(part), skip: skip, keep: len(h.lines) - skip - drop}
			p.note = h.note(at-skip+1, fuzz)
			return p, nil
		}
	}
	return placed{}, errors.New("its lines are not in the file" + t.nearest(old))
}

// placeAsSaid is place for a hunk that is exactly where it says, moved as the one before it
// was; ok is false when it is not.
func (t text) placeAsSaid(h hunk, offset int) (p placed, ok bool) {
	old, at := h.old(), h.start-1+offset
	if h.start == 0 || len(old) == 0 || at < 0 || at+len(old) > len(t.lines) {
		return p, false
	}
	for i, s := range old {
		if t.lines[at+i].text != s {
			return p, false
		}
	}
	return placed{hunk: h, from: at, to: at + len(old), keep: len(h.lines), note: h.note(at+1, 0)}, true
}

// placeInsertion is for a hunk without context: there is only its number to go by.
func (t text) placeInsertion(h hunk, offset int) (placed, error) {
	switch {
	case h.start > len(t.lines):
		return placed{}, fmt.Errorf("it has no context, and line %d is not in the file (total lines: %d)", h.start, len(t.lines))
	case len(t.lines) > 0 && (h.unnumbered || offset != 0):
		return placed{}, errors.New("it has no context, and its line number cannot be relied on; add context lines")
	}
	return placed{hunk: h, from: h.start, to: h.start, keep: len(h.lines)}, nil
}

// find is the place of a run of lines, or -1. A place that the diff names is taken
// before others, unless the run was cut and must be the only one of its kind.
func (t text) find(part []string, expected, offset int, known, unique bool, same func(a, b string) bool) (int, error) {
	found := occurrences(t.lines, part, same)
	if len(found) == 0 {
		return -1, nil
	}
	if _, ok := slices.BinarySearch(found, expected+offset); ok && known && !unique {
		return expected + offset, nil
	}
	if len(found) > 1 {
		shown := make([]string, 0, nearShown)
		for _, at := range found[:min(len(found), nearShown)] {
			shown = append(shown, fmt.Sprint(at+1))
		}
		return 0, fmt.Errorf("it fits at %d places (lines %s ...), none of them where it says; add context lines", len(found), strings.Join(shown, ", "))
	}
	return found[0], nil
}

// occurrences are the lines at which a run begins, found in time linear in both
// (Knuth, Morris and Pratt). same must be an equivalence.
func occurrences(lines []line, run []string, same func(a, b string) bool) (at []int) {
	border := make([]int, len(run)) // of each prefix: its longest proper prefix that ends it
	for i, k := 1, 0; i < len(run); i++ {
		for k > 0 && !same(run[i], run[k]) {
			k = border[k-1]
		}
		if same(run[i], run[k]) {
			k++
		}
		border[i] = k
	}
	k := 0
	for i, l := range lines {
		for k > 0 && (k == len(run) || !same(l.text, run[k])) {
			k = border[k-1]
		}
		if same(l.text, run[k]) {
			k++
		}
		if k == len(run) {
			at = append(at, i-k+1)
		}
	}
	return at
}

func equal(a, b string) bool { return a == b }

func equalTrimmed(a, b string) bool {
	return strings.TrimRight(a, " \t\r") == strings.TrimRight(b, " \t\r")
}

// old is what the hunk expects in the file.
func (h hunk) old() (lines []string) {
	for _, l := range h.lines {
		if l.op != gitdiff.OpAdd {
			lines = append(lines, l.text)
		}
	}
	return lines
}

// context counts the lines before and after all that the hunk changes.
func (h hunk) context() (lead, trail int) {
	for lead < len(h.lines) && h.lines[lead].op == gitdiff.OpContext {
		lead++
	}
	for trail < len(h.lines)-lead && h.lines[len(h.lines)-1-trail].op == gitdiff.OpContext {
		trail++
	}
	return lead, trail
}

// note says how a hunk was placed when it is not where and what the diff says.
func (h hunk) note(at, fuzz int) string {
	var parts []string
	if at != h.start && h.start > 0 {
		parts = append(parts, fmt.Sprintf("at line %d instead of %d", at, h.start))
	}
	switch fuzz {
	case 0:
	case 1:
		parts = append(parts, "with different spaces at the ends of lines")
	default:
		parts = append(parts, fmt.Sprintf("with %d outer context lines that differ", fuzz-1))
	}
	return strings.Join(parts, ", ")
}

// nearest says where a run of lines is nearly in the file.
func (t text) nearest(run []string) string {
	want := make([]line, 0, len(run))
	for _, s := range run {
		want = append(want, line{s, "\n"})
	}
	if at, ok := closest(t.lines, want); ok && len(want) <= nearLines {
		return ". " + difference(t.lines, want, at, "the diff")
	}
	return fmt.Sprintf("; they begin with %q", cut(run[0]))
}

// applied puts the hunks into the file. Context lines keep the file's bytes; added
// ones end as in the diff when it knows how lines end there, else as their neighbours.
func (t text) applied(places []placed) text {
	out := make([]line, 0, len(t.lines))
	next := 0
	said := false // the diff says how the last line ends
	for _, p := range places {
		out = append(out, t.lines[next:p.from]...)
		next = p.from
		knows := t.endsAs(p)
		for _, l := range p.lines[p.skip : p.skip+p.keep] {
			switch l.op {
			case gitdiff.OpAdd:
				out = append(out, line{l.text, l.end(endAt(t.lines, next), knows)})
			case gitdiff.OpContext:
				out = append(out, t.lines[next])
				next++
			case gitdiff.OpDelete:
				next++
			}
			said = said || l.open
		}
	}
	out = append(out, t.lines[next:]...)
	for i := range max(0, len(out)-1) {
		if out[i].end == "" {
			out[i].end = endAt(out, i)
		}
	}
	return text{t.bom, lastLine(out, t.open(), said)}
}

// endsAs says whether the lines of the file that a hunk names end as in the diff.
// Diffs that are not made by a program seldom have CRLF, whatever the file has.
func (t text) endsAs(p placed) bool {
	next := p.from
	for _, l := range p.lines[p.skip : p.skip+p.keep] {
		if l.op == gitdiff.OpAdd {
			continue
		}
		if end := t.lines[next].end; end != "" && !l.open && l.crlf != (end == "\r\n") {
			return false
		}
		next++
	}
	return next > p.from || len(t.lines) == 0
}

// end is how an added line ends: as its neighbour, unless the diff says.
func (l patchLine) end(neighbour string, said bool) string {
	switch {
	case l.open:
		return ""
	case !said:
		return neighbour
	case l.crlf:
		return "\r\n"
	}
	return "\n"
}

// lastLine keeps the last line open or closed as it was in the file, unless the
// diff said something about it.
func lastLine(lines []line, wasOpen, said bool) []line {
	switch n := len(lines); {
	case n == 0 || said:
	case wasOpen:
		lines[n-1].end = ""
	default:
		return closed(lines)
	}
	return lines
}

package editor

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// What the search for a near miss may cost, whatever the file and the text.
const (
	nearBytes   = 8 << 20 // of the file
	nearLines   = 2000    // of the text
	nearRepeats = 100     // places of one line
	nearShown   = 3       // differences
	nearQuote   = 120     // characters of a line
	nearEnough  = 0.5     // of a line's pairs of letters, to call it similar
)

const notThere = "'old_str' must appear exactly once in the file, but it does not appear in the file. " +
	"Make sure the string exactly matches existing file content, including whitespace!"

// sought is the text's name in messages.
const sought = "old_str"

// notFound says that a text is not in the file, and what comes closest.
func notFound(lines []line, old string) string {
	want := split(old)
	if len(want) == 0 || len(want) > nearLines {
		return notThere
	}
	if bare, numbered := withoutNumbers(want); numbered {
		if at, ok := closest(lines, bare); ok && difference(lines, bare, at, sought) == "" {
			return notThere + fmt.Sprintf("\n\nThe lines of old_str begin with the line numbers that view shows; they are not part of the file. Without them it is at line %d.", at+1)
		}
	}
	at, ok := closest(lines, want)
	if !ok {
		return notThere
	}
	hint := difference(lines, want, at, sought)
	if hint == "" {
		hint = fmt.Sprintf("The text is at line %d, but the file ends there without a line feed.", at+1)
	}
	return notThere + "\n\n" + hint
}

// closest is the line at which the text would begin if it was there: the place
// that most of its lines agree on, spaces at their ends aside, or else the place
// of a line that is similar to its longest one.
func closest(lines, want []line) (at int, ok bool) {
	places := map[string][]int{}
	for _, w := range want {
		if key := strings.TrimSpace(w.text); key != "" {
			places[key] = nil
		}
	}
	budget := nearBytes
	for j, l := range lines {
		if budget -= len(l.text); budget < 0 {
			break
		}
		key := strings.TrimSpace(l.text)
		if found, wanted := places[key]; wanted && len(found) < nearRepeats {
			places[key] = append(found, j)
		}
	}
	votes, best := map[int]int{}, 0
	for i, w := range want {
		key := strings.TrimSpace(w.text)
		for _, j := range places[key] {
			votes[j-i] += 1 + min(len(key), 40) // a long line says more than a brace
		}
	}
	for place, n := range votes {
		if n > best || n == best && place < at {
			at, best = place, n
		}
	}
	if best > 0 {
		return max(0, at), true
	}
	return similar(lines, want)
}

// similar looks for the longest line of the text by its pairs of letters.
func similar(lines, want []line) (at int, ok bool) {
	longest := 0
	for i, w := range want {
		if len(strings.TrimSpace(w.text)) > len(strings.TrimSpace(want[longest].text)) {
			longest = i
		}
	}
	wanted := strings.TrimSpace(want[longest].text)
	wanted = wanted[:min(len(wanted), 4*nearQuote)]
	seen := make([]int32, 1<<16) // pair of bytes: the line that has it, from 1; -1: not wanted
	for i := range seen {
		seen[i] = -1
	}
	pairs := 0
	for i := 1; i < len(wanted); i++ {
		if p := pair(wanted, i); seen[p] < 0 {
			seen[p] = 0
			pairs++
		}
	}
	best, budget := 0, nearBytes
	for j, l := range lines {
		if budget -= len(l.text); budget < 0 {
			break
		}
		n := 0
		for i := 1; i < len(l.text); i++ {
			if p := pair(l.text, i); seen[p] >= 0 && seen[p] != int32(j+1) {
				seen[p] = int32(j + 1)
				n++
			}
		}
		if n > best {
			at, best = j-longest, n
		}
	}
	return max(0, at), pairs > 0 && float64(best) >= nearEnough*float64(pairs)
}

func pair(s string, i int) uint16 { return uint16(s[i-1])<<8 | uint16(s[i]) }

// difference describes how a text, called what, and the file differ at a place; it
// is empty when they do not.
func difference(lines, want []line, at int, what string) string {
	var b strings.Builder
	differing, spaces := 0, true
	for i, w := range want {
		have, there := "", at+i < len(lines)
		if there {
			have = lines[at+i].text
		}
		if there && fits(have, w.text, i == 0, i == len(want)-1 && w.end == "") {
			continue
		}
		differing++
		spaces = spaces && there && blankless(have) == blankless(w.text)
		if differing > nearShown {
			continue
		}
		fmt.Fprintf(&b, "\nLine %d: %s has %s\n", at+i+1, what, quote(w.text, have))
		if there {
			fmt.Fprintf(&b, "%*sthe file has %s", len(fmt.Sprintf("Line %d: ", at+i+1)), "", quote(have, w.text))
		} else {
			b.WriteString("the file ends before it")
		}
	}
	if differing == 0 {
		return ""
	}
	where := placeOf(at, len(want), differing, spaces)
	more := ""
	if differing > nearShown {
		more = fmt.Sprintf("\n... and %d more", differing-nearShown)
	}
	return "The closest match is at " + where + ":" + b.String() + more
}

// placeOf names the lines that come closest, and how many of them differ.
func placeOf(at, n, differing int, spaces bool) string {
	switch {
	case n == 1 && spaces:
		return fmt.Sprintf("line %d (it differs only in whitespace)", at+1)
	case n == 1:
		return fmt.Sprintf("line %d", at+1)
	case spaces:
		return fmt.Sprintf("lines %d-%d (%d of %d lines differ, only in whitespace)", at+1, at+n, differing, n)
	}
	return fmt.Sprintf("lines %d-%d (%d of %d lines differ)", at+1, at+n, differing, n)
}

// fits says whether a line of the file is what the text has there. A text may
// begin and end in the middle of a line.
func fits(have, want string, first, last bool) bool {
	switch {
	case first && last:
		return strings.Contains(have, want)
	case first:
		return strings.HasSuffix(have, want)
	case last:
		return strings.HasPrefix(have, want)
	}
	return have == want
}

func blankless(s string) string { return strings.Join(strings.Fields(s), "") }

// quote shows a line with its tabs and spaces visible, cut to what is around the
// first place where it differs from the other.
func quote(s, other string) string {
	n := 0
	for n < len(s) && n < len(other) && s[n] == other[n] {
		n++
	}
	from, to := max(0, n-nearQuote/2), min(len(s), n+nearQuote/2)
	if len(s) <= nearQuote {
		from, to = 0, len(s)
	}
	q := strconv.Quote(strings.ToValidUTF8(s[from:to], ""))
	if from > 0 {
		q = "..." + q
	}
	if to < len(s) {
		q += "..."
	}
	return q
}

// withoutNumbers takes off the numbers that view puts before each line, when
// every line has one.
func withoutNumbers(want []line) ([]line, bool) {
	numbered := regexp.MustCompile(`^[0-9]+: ?`)
	bare := make([]line, len(want))
	for i, w := range want {
		mark := numbered.FindString(w.text)
		if mark == "" {
			return nil, false
		}
		bare[i] = line{w.text[len(mark):], w.end}
	}
	return bare, true
}

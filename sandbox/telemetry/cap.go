package telemetry

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SummaryLimit bounds a summary, in characters.
const SummaryLimit = 200

// limits bound the content of events, in bytes; otherLimit is for types not here.
const (
	toolUseLimit    = 5_000
	toolResultLimit = 10_000
	errorLimit      = 5_000
	textLimit       = 64 << 10
	otherLimit      = 2_000
)

// ContentLimit is how many bytes of content an event of a type may have.
func ContentLimit(t Type) int {
	switch t {
	case ToolUse:
		return toolUseLimit
	case ToolResult:
		return toolResultLimit
	case Error:
		return errorLimit
	case Text, Thought:
		return textLimit
	}
	return otherLimit
}

// Bounds of what else an event says, in bytes, and of its numbers: what JavaScript can
// count.
const (
	typeLimit   = 64
	wordLimit   = 1_000
	weakerLimit = 16 // words
	numberLimit = 1 << 53
)

// Cap makes the summary one line of its length and cuts the content to its size, both
// between characters, and makes them valid UTF-8. An event that was cut before keeps
// its original size. The other words and numbers are kept to what they can be: they
// come from an agent, too. To cap twice changes nothing more.
func (e *Event) Cap() {
	e.Summary = Summarise(e.Summary)
	e.Type = Type(word(string(e.Type), typeLimit))
	if e.Type == "" {
		e.Type = "unknown"
	}
	for _, w := range []*string{&e.Tool, &e.ToolCallID, &e.Status, &e.Reason} {
		*w = word(*w, wordLimit)
	}
	e.Weaker = slices.Clone(e.Weaker[:min(len(e.Weaker), weakerLimit)])
	for i, w := range e.Weaker {
		e.Weaker[i] = word(w, wordLimit)
	}
	if e.Usage != nil {
		u := e.Usage.Sane()
		e.Usage = &u
	}
	e.capContent()
}

// word is a text as it can be without a change of what is at its beginning.
func word(text string, limit int) string {
	return CutBytes(strings.ToValidUTF8(text, ""), limit)
}

// Sane is the usage with numbers that make sense: nothing was given back.
func (u Usage) Sane() Usage {
	for _, n := range []*int64{&u.Input, &u.Output, &u.Total} {
		*n = min(max(*n, 0), numberLimit)
	}
	u.Cost = min(max(u.Cost, 0), numberLimit)
	return u
}

func (e *Event) capContent() {
	if !utf8.ValidString(e.Content) {
		e.Content = strings.ToValidUTF8(e.Content, "\uFFFD")
	}
	limit := ContentLimit(e.Type)
	if len(e.Content) <= limit {
		return
	}
	if !e.Truncated {
		e.Truncated, e.Bytes = true, len(e.Content)
	}
	e.Content = CutBytes(e.Content, limit)
}

// Summarise makes a summary of a text: one line, at most SummaryLimit characters.
func Summarise(text string) string { return summarise(text, SummaryLimit) }

func summarise(text string, limit int) string {
	look := 8 * limit // more than can be kept, whatever the characters
	cut := len(text) > look
	if cut {
		text = text[:look]
	}
	var b strings.Builder
	n, blank := 0, false
	for i, r := range text {
		if r == utf8.RuneError {
			if cut && !utf8.FullRuneInString(text[i:]) {
				break // the cut went through it
			}
		}
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			blank = n > 0
			continue
		}
		if blank {
			b.WriteByte(' ')
			n++
			blank = false
		}
		if n >= limit {
			break
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimRight(b.String(), " ")
}

// CutBytes is the beginning of a text, at most limit bytes, whole characters.
func CutBytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

package sessions

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"gander.dev/gander/acp"
)

// History is a conversation in plain words.
type History struct {
	// Summary stands for what came before all turns; see [Compaction].
	Summary string
	// Turns are the last ones, oldest first.
	Turns []Turn
	// OmittedTurns is how many earlier ones did not fit, OmittedEntries how
	// many entries of the first of Turns.
	OmittedTurns, OmittedEntries int
}

// A Turn is what was asked and what came of it.
type Turn struct {
	// ID is the turn's id, empty in transcripts without.
	ID      string
	Entries []Entry
	// StopReason and Error say how it ended; both are empty for a turn that was
	// cut short.
	StopReason acp.StopReason
	Error      string
}

// The kinds of an [Entry] that are not roles of a message.
const (
	EntryTool    = "tool"
	EntrySummary = "summary"
)

// An Entry is one thing said or done.
type Entry struct {
	// Kind is the role of who spoke ("user", "assistant", "system"), EntryTool
	// or EntrySummary.
	Kind string
	// Text is what was said; of a tool call a line with kind, title and status,
	// and its result, shortened.
	Text string
}

// History reads the conversation of a session, at most about maxBytes of text
// (0: all of it): the last turns, and of a turn that is itself too long what was
// asked and how it ended. What the agent thought is left out; what was compacted
// is there as its summary, and what was pruned not at all.
func (s *Store) History(ctx context.Context, id acp.SessionID, maxBytes int) (*History, error) {
	b := historyBuilder{max: maxBytes}
	for r, err := range s.counting(ctx, id) {
		if err != nil {
			return nil, err
		}
		b.add(&r)
	}
	return b.finish(), nil
}

// counting are the records that count for agents: those behind the last cut, the
// summary of what was before it the first of them, and without what rewinds took back.
func (s *Store) counting(ctx context.Context, id acp.SessionID) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var cut cut
		var taken left
		if f, err := s.fold(ctx, id); err == nil { // one without a header is read to its end
			taken.spans = f.Left
			if f.Cut != nil {
				cut = *f.Cut
			}
		}
		if cut.At > 0 && !s.yieldAt(ctx, id, cut.At, yield) {
			return
		}
		n := 0
		begun := cut.At == 0
		for r, err := range s.Entries(ctx, id) {
			n++
			if gone := taken.has(r.ID); gone && err == nil {
				continue
			}
			if err == nil && (!begun || n == cut.At) {
				begun = begun || n >= cut.At || cut.LastID != "" && r.ID == cut.LastID
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// yieldAt yields one record, by its number from 1, or the error of reading it.
func (s *Store) yieldAt(ctx context.Context, id acp.SessionID, number int, yield func(Record, error) bool) bool {
	n := 0
	for r, err := range s.Entries(ctx, id) {
		if n++; err != nil || n == number {
			return yield(r, err) && err == nil
		}
	}
	return true
}

// String renders the history for an agent to read. It is empty for an empty history.
func (h *History) String() string {
	var b strings.Builder
	if h.Summary != "" {
		fmt.Fprintf(&b, "%s: %s\n\n", label(EntrySummary), h.Summary)
	}
	if h.OmittedTurns > 0 {
		fmt.Fprintf(&b, "(%s left out here to keep this short.)\n\n", count(h.OmittedTurns, "earlier turn of this conversation is", "earlier turns of this conversation are"))
	}
	for i := range h.Turns {
		t := &h.Turns[i]
		for j, e := range t.Entries {
			fmt.Fprintf(&b, "%s: %s\n", label(e.Kind), e.Text)
			if i == 0 && j == 0 && h.OmittedEntries > 0 {
				fmt.Fprintf(&b, "(%s left out here.)\n", count(h.OmittedEntries, "entry of this turn is", "entries of this turn are"))
			}
		}
		b.WriteString(t.ending())
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}

// ending is a line about a turn that did not end by itself.
func (t *Turn) ending() string {
	switch {
	case t.Error != "":
		return "(The turn failed: " + oneLine(t.Error) + ")\n"
	case t.StopReason == acp.StopCancelled:
		return "(The person cancelled this turn.)\n"
	}
	return ""
}

func label(kind string) string {
	switch kind {
	case string(RoleUser):
		return "User"
	case string(RoleAssistant):
		return "Assistant"
	case EntryTool:
		return "Tool"
	case EntrySummary:
		return "Summary of what came before"
	}
	return "System"
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

const maxLine = 200 // bytes of a title or an error

// oneLine is s without line breaks, cut to a length that names the thing.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxLine {
		return s
	}
	return cutAt(s, maxLine) + "…"
}

// cutAt is the longest beginning of s of at most n bytes that does not end inside a character.
func cutAt(s string, n int) string {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

package sessions

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"gander.dev/gander/acp"
)

// A Summarizer writes a summary of a conversation, of at most about maxChars
// characters: a model, when a person asks for it.
type Summarizer func(ctx context.Context, old *History, maxChars int) (string, error)

// CompactOptions say how a conversation is made shorter for agents.
type CompactOptions struct {
	// Keep is how many of the last messages stay as they are, at least: turns are
	// not cut in two. 0 means 20, less than 0 none.
	Keep int
	// MaxChars bounds the summary; 0 means 4000.
	MaxChars int
	// Summarize writes the summary; nil is the rule: a line for each message.
	Summarize Summarizer
	// FreshAgent makes agents begin conversations of their own again, with the
	// summary. Without it only an agent that has lost its own sees it.
	FreshAgent bool
}

const (
	defaultKeepMessages = 20
	defaultSummaryChars = 4000
	maxSummarized       = 256 << 10 // bytes of a conversation that a Summarizer gets
)

// Compacted is what came of [Store.Compact] or [Store.Prune].
type Compacted struct {
	// Applied is false when there was nothing old enough.
	Applied bool   `json:"applied"`
	Summary string `json:"summary,omitempty"`
	// Messages are summed up or pruned, Kept stay.
	Messages int `json:"compactedMessages"`
	Kept     int `json:"keptMessages"`
}

// Compact appends a summary that stands for the older messages from then on. They
// stay in the transcript, and clients are shown them as before. The caller sees to
// it that no turn runs; see [Store.Claim].
func (s *Store) Compact(ctx context.Context, id acp.SessionID, o CompactOptions) (Compacted, error) {
	b, err := s.boundary(ctx, id, o.Keep)
	if err != nil || b.lastID == "" {
		return Compacted{Kept: b.total}, err
	}
	old := historyBuilder{max: maxSummarized}
	for r, err := range s.counting(ctx, id) {
		if err != nil {
			return Compacted{}, err
		}
		old.add(&r)
		if r.ID == b.lastID {
			break
		}
	}
	maxChars := cmp.Or(max(o.MaxChars, 0), defaultSummaryChars)
	by, summarize := "model", o.Summarize
	if summarize == nil {
		by, summarize = "rule", summaryByRule
	}
	summary, err := summarize(ctx, old.finish(), maxChars)
	if err != nil {
		return Compacted{}, fmt.Errorf("summing up session %s: %w", id, err)
	}
	c := Compaction{Summary: summary, CompactedMessages: b.before, KeptMessages: b.total - b.before, FirstID: b.firstID, LastID: b.lastID, By: by, FreshAgent: o.FreshAgent}
	if err := s.Append(ctx, id, Record{Body: c}); err != nil {
		return Compacted{}, err
	}
	return Compacted{true, summary, c.CompactedMessages, c.KeptMessages}, nil
}

// Prune has agents begin again with only the last keep messages, at least: turns
// are not cut in two. 0 means 20, less than 0 none. The others stay in the
// transcript. The caller sees to it that no turn runs; see [Store.Claim].
func (s *Store) Prune(ctx context.Context, id acp.SessionID, keep int) (Compacted, error) {
	b, err := s.boundary(ctx, id, keep)
	if err != nil || b.lastID == "" {
		return Compacted{Kept: b.total}, err
	}
	p := Prune{LastID: b.lastID, PrunedMessages: b.before, KeptMessages: b.total - b.before}
	if err := s.Append(ctx, id, Record{Body: p}); err != nil {
		return Compacted{}, err
	}
	return Compacted{Applied: true, Messages: p.PrunedMessages, Kept: p.KeptMessages}, nil
}

// boundary is between two turns: what is old, and what is kept.
type boundary struct {
	firstID, lastID string // of what is old; empty when nothing is
	before, total   int    // messages
}

func (s *Store) boundary(ctx context.Context, id acp.SessionID, keep int) (boundary, error) {
	keep = max(cmp.Or(keep, defaultKeepMessages), 0)
	var b boundary
	var turns []boundary // where each begins
	var sum fold
	var last, turnID string
	running := false // the last turn: it is the one that asks, and never old
	for r, err := range s.counting(ctx, id) {
		if err != nil {
			return boundary{}, err
		}
		if _, ok := r.Body.(Compaction); ok && last == "" {
			continue // its messages have been counted
		}
		if m, ok := r.Body.(Message); last != "" && (ok && m.Role == RoleUser && r.TurnID == "" || r.TurnID != "" && r.TurnID != turnID) {
			turns = append(turns, boundary{lastID: last, before: sum.Messages})
		}
		if r.TurnID != "" {
			turnID = r.TurnID
		}
		if e, ok := r.Body.(TurnEvent); ok {
			running = e.Event == TurnStart
		}
		sum.add(&r)
		if r.ID != "" {
			last = r.ID
			b.firstID = cmp.Or(b.firstID, r.ID)
		}
	}
	b.total = sum.Messages
	switch {
	case !running:
		turns = append(turns, boundary{lastID: last, before: b.total})
	case len(turns) > 0:
		b.total = turns[len(turns)-1].before
	default:
		b.total = 0
	}
	for _, t := range turns {
		if t.before > 0 && t.before <= b.total-keep {
			b.lastID, b.before = t.lastID, t.before
		}
	}
	return b, nil
}

// summaryByRule is a line for each thing said or done. Of too many the first, what
// it was all about, and the last ones stay.
func summaryByRule(_ context.Context, old *History, maxChars int) (string, error) {
	var lines []string
	if old.Summary != "" {
		lines = append(lines, "- before: "+flat(old.Summary, maxChars/3))
	}
	if n := old.OmittedTurns; n > 0 {
		lines = append(lines, fmt.Sprintf("- (%d turns left out)", n))
	}
	for i := range old.Turns {
		for _, e := range old.Turns[i].Entries {
			lines = append(lines, "- "+e.Kind+": "+flat(e.Text, 300))
		}
		if ending := strings.TrimSpace(old.Turns[i].ending()); ending != "" {
			lines = append(lines, "- "+ending)
		}
	}
	const title = "What was said and done so far, in short:"
	if len(lines) > 1 {
		first, room := len(lines), maxChars-len(title)-len(lines[0])-40
		for first > 1 && room > len(lines[first-1]) {
			first--
			room -= len(lines[first]) + 1
		}
		if first > 1 {
			lines = append([]string{lines[0], fmt.Sprintf("- (%d lines left out)", first-1)}, lines[first:]...)
		}
	}
	return title + "\n" + strings.Join(lines, "\n"), nil
}

// flat is a text on one line, cut to about n bytes.
func flat(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n {
		return s
	}
	return cutAt(s, n) + "…"
}

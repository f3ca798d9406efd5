package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gander.dev/gander/acp"
)

// A Hit is a place where a text was found.
type Hit struct {
	Session Info `json:"session"`
	// Time is when the message, or its first piece, was recorded.
	Time time.Time `json:"time"`
	// Kind is "title", the role of who spoke, EntryTool or EntrySummary.
	Kind string `json:"kind"`
	// Excerpt is the text around it on one line.
	Excerpt string `json:"excerpt"`
}

// Search finds a text, in any case, in the titles, the messages, the tool calls
// and the summaries of all sessions, the last used ones first; one hit for a
// message. o says in which sessions. A message of which more than a megabyte was
// said is searched in parts.
func (s *Store) Search(ctx context.Context, text string, o ListOptions) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		page, err := s.List(ctx, o)
		if err != nil {
			yield(Hit{}, err)
			return
		}
		for _, info := range page.Sessions {
			f := finder{text: strings.ToLower(text), hit: func(h Hit) bool {
				h.Session = info
				return yield(h, nil)
			}}
			if f.look("title", info.CreatedAt, info.Title) && !s.searchIn(ctx, info.ID, &f, yield) || f.over {
				return
			}
		}
	}
}

func (s *Store) searchIn(ctx context.Context, id acp.SessionID, f *finder, yield func(Hit, error) bool) bool {
	for r, err := range s.Entries(ctx, id) {
		if errors.Is(err, ErrNotFound) {
			return true // deleted meanwhile
		}
		if err != nil {
			yield(Hit{}, err)
			return false
		}
		if !f.record(&r) {
			return false
		}
	}
	return f.flush()
}

// finder puts the pieces of messages together and looks for a text in them.
type finder struct {
	text string // in lower case
	hit  func(Hit) bool
	over bool

	at   time.Time
	said strings.Builder
}

const maxSearched = 1 << 20 // bytes of a message that are held

func (f *finder) record(r *Record) bool {
	switch b := r.Body.(type) {
	case Message:
		return f.flush() && f.look(string(b.Role), r.Time, b.Content)
	case Compaction:
		return f.flush() && f.look(EntrySummary, r.Time, b.Summary)
	case Update:
		for _, u := range b.shown() {
			if !f.update(r.Time, u) {
				return false
			}
		}
	case TurnEvent:
		return f.flush()
	}
	return true
}

func (f *finder) update(at time.Time, raw json.RawMessage) bool {
	switch acp.UpdateKind(raw) {
	case acp.AgentMessageChunk:
		var u struct {
			Content acp.ContentBlock `json:"content"`
		}
		if json.Unmarshal(raw, &u) != nil {
			return true
		}
		if f.said.Len() == 0 {
			f.at = at
		}
		f.said.WriteString(acp.ParseContentBlock(u.Content).Text)
		return f.said.Len() < maxSearched || f.flush()
	case "tool_call":
		var u struct {
			Title string `json:"title"`
		}
		_ = json.Unmarshal(raw, &u) // without a title there is nothing to find
		return f.flush() && f.look(EntryTool, at, u.Title)
	}
	return true
}

// flush looks into the message that has been put together.
func (f *finder) flush() bool {
	text := f.said.String()
	f.said.Reset()
	return f.look(string(RoleAssistant), f.at, text)
}

func (f *finder) look(kind string, at time.Time, text string) bool {
	lower := strings.ToLower(text)
	i := strings.Index(lower, f.text)
	if i < 0 || f.text == "" {
		return true
	}
	if len(lower) != len(text) { // another length in lower case: the place is about there
		i = min(i, len(text))
	}
	if !f.hit(Hit{Time: at, Kind: kind, Excerpt: around(text, i, len(f.text))}) {
		f.over = true
		return false
	}
	return true
}

// around is the text around a place, on one line.
func around(text string, at, n int) string {
	const before, after = 40, 80
	start, end := max(0, at-before), min(len(text), at+n+after)
	for start > 0 && start < len(text) && !utf8.RuneStart(text[start]) {
		start--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	out := strings.Join(strings.FieldsFunc(text[start:end], func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if start > 0 {
		out = "…" + out
	}
	if end < len(text) {
		out += "…"
	}
	return out
}

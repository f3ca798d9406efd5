package sessions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"gander.dev/gander/acp"
)

// A Rewind says that a conversation goes on as it was before one of its turns, from then on:
// that turn and those behind it do not count. They stay in the file, so that a rewind to before
// the rewind brings them back.
type Rewind struct {
	// Before is the turn that the conversation was put back to before.
	Before string `json:"before"`
	// Left are all records that do not count, in their order.
	Left []Span `json:"left"`
	// Cut, LastTurn, AgentSessions and AgentTurns are as they were then, see [Info]: of agents only
	// those whose own conversations have not gone on since.
	Cut           *cut              `json:"cut,omitempty"`
	LastTurn      string            `json:"lastTurn,omitempty"`
	AgentSessions map[string]string `json:"agentSessions,omitempty"`
	AgentTurns    map[string]string `json:"agentTurns,omitempty"`
}

// A Span holds the records from the one with the id From to the last one before Until, which is the
// Rewind itself when it is empty.
type Span struct {
	From  string `json:"from"`
	Until string `json:"until,omitempty"`
}

// RewindCommand is the slash command that rewinds a thread.
const RewindCommand = "rewind"

// left tells the records that do not count from the others. They are asked about in their order.
type left struct {
	spans  []Span
	inside bool
}

func (l *left) has(id string) bool {
	if l.inside && id == l.spans[0].Until {
		l.inside, l.spans = false, l.spans[1:]
	}
	if !l.inside && len(l.spans) > 0 && id == l.spans[0].From {
		l.inside = true
	}
	return l.inside
}

// A Thread is the turns of a session that it can be put back to before.
type Thread struct {
	// Turns are those of agents and the rewinds, in their order.
	Turns []ThreadTurn

	asked map[string]string // the first records of turns that ask for a rewind, by turn
}

// A ThreadTurn is one prompt to an agent, or a rewind.
type ThreadTurn struct {
	// Number counts from 1 and stays as it is.
	Number int
	ID     string
	Time   time.Time
	// Text is the prompt, on one line.
	Text string
	// Rewind is set of one that put the thread back.
	Rewind bool
	// Left means that the turn was taken back.
	Left bool
	// Changed counts the files that are known to have changed in it.
	Changed int

	first        string // its first record
	before       Rewind // as the conversation was
	agent        string // who was given it, with its own id of the conversation; as in TurnEvent
	agentSession string
	ended        bool
}

// counts reports whether a turn is one of a Thread: not one that no agent was given.
func (t *ThreadTurn) counts(asked map[string]string) bool {
	return t.Rewind || asked[t.ID] == "" && (t.agent != "" || !t.ended)
}

// Thread reads the turns of a session.
func (s *Store) Thread(ctx context.Context, id acp.SessionID) (*Thread, error) {
	var f fold
	var turns []*ThreadTurn
	byID, thread := map[string]*ThreadTurn{}, &Thread{asked: map[string]string{}}
	for r, err := range s.Entries(ctx, id) {
		if err != nil {
			return nil, err
		}
		t := byID[r.TurnID]
		switch b := r.Body.(type) {
		case TurnEvent:
			switch {
			case b.Event == TurnStart && (b.Command == "" || b.Command == RewindCommand):
				t = &ThreadTurn{ID: r.TurnID, Time: r.Time, first: r.ID, before: f.state(r.TurnID)}
				turns, byID[r.TurnID] = append(turns, t), t
				if b.Command != "" {
					thread.asked[r.TurnID] = r.ID
				}
			case b.Event == TurnEnd && t != nil:
				t.ended, t.agent, t.agentSession = true, b.Agent, b.AgentSessionID
			}
		case Message:
			if t != nil && b.Role == RoleUser && t.Text == "" {
				t.Text = TitleOf(b.Content)
			}
		case Changes:
			if t != nil {
				t.Changed += len(b.Paths) + b.Omitted
			}
		case Rewind:
			if t == nil { // not by a command in the thread
				t = &ThreadTurn{ID: r.ID, Time: r.Time, Text: "gander session rewind", first: r.ID, before: f.state(r.ID)}
				turns = append(turns, t)
			}
			t.Rewind = true
		}
		f.add(&r)
	}
	taken := left{spans: f.Left}
	for _, t := range turns {
		t.Left = taken.has(t.first)
		if t.counts(thread.asked) {
			t.Number = len(thread.Turns) + 1
			thread.Turns = append(thread.Turns, *t)
		}
	}
	return thread, nil
}

// state returns what a Rewind to this place says.
func (f *fold) state(turn string) Rewind {
	return Rewind{Before: turn, Left: f.Left, Cut: f.Cut, LastTurn: f.LastTurn, AgentSessions: maps.Clone(f.AgentSessions), AgentTurns: maps.Clone(f.AgentTurns)}
}

func (f *fold) rewind(id string, r Rewind) {
	f.Left = slices.Clone(r.Left)
	if n := len(f.Left); n > 0 && f.Left[n-1].Until == "" {
		f.Left[n-1].Until = id
	}
	f.Cut, f.LastTurn, f.AgentSessions, f.AgentTurns = r.Cut, r.LastTurn, r.AgentSessions, r.AgentTurns
}

// To is the record that puts the thread back to before a turn: append it, with the turn that asked
// for it, which stays a part of the thread; by is empty for none.
func (t *Thread) To(number int, by string) (*Rewind, error) {
	i := slices.IndexFunc(t.Turns, func(turn ThreadTurn) bool { return turn.Number == number })
	if i < 0 {
		return nil, fmt.Errorf("there is no turn %d", number)
	}
	turn := t.Turns[i]
	if turn.Left {
		return nil, fmt.Errorf("turn %d was taken back already", number)
	}
	r := turn.before
	r.Left = append(slices.Clone(r.Left), Span{From: turn.first, Until: t.asked[by]})
	for _, later := range t.Turns[i:] {
		if later.Rewind {
			continue
		}
		for name, own := range r.AgentSessions {
			if !later.ended || later.agent == name && (later.agentSession == own || later.agentSession == "") {
				delete(r.AgentSessions, name)
				delete(r.AgentTurns, name)
			}
		}
	}
	return &r, nil
}

// Counting are the ids of the turns that count after a Rewind, and Left those that do not.
func (t *Thread) Counting(r *Rewind) (counting, rest []string) {
	taken := left{spans: r.Left}
	for i := range t.Turns {
		if taken.has(t.Turns[i].first) {
			rest = append(rest, t.Turns[i].ID)
		} else {
			counting = append(counting, t.Turns[i].ID)
		}
	}
	return counting, rest
}

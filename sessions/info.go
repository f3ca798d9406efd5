package sessions

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"gander.dev/gander/acp"
)

// ErrWorkingDir means that a session was asked for in another directory than its own.
var ErrWorkingDir = errors.New("a session never changes its directory")

// Info is what is known of a session without reading its transcript: the sum of
// its records.
type Info struct {
	ID     acp.SessionID `json:"sessionId"`
	Key    string        `json:"sessionKey"`
	Origin Origin        `json:"origin,omitempty"`
	// Temporary is whether nothing of it is to be kept; see [Header].
	Temporary bool `json:"temporary,omitempty"`
	// Archived is whether a person has put it away.
	Archived bool `json:"archived,omitempty"`
	// Agent is the one that was chosen last.
	Agent string `json:"agentId"`
	// WorkingPath is the directory as it was given, RealPath the same without
	// links as they were then; empty when it could not be resolved.
	WorkingPath           string   `json:"workingPath"`
	RealPath              string   `json:"realPath,omitempty"`
	AdditionalDirectories []string `json:"additionalDirectories,omitempty"`
	// Title is the last [Title], else what the agent called the session, else
	// the beginning of the first message. TitleBy is "person", "agent" or empty.
	Title   string `json:"title,omitempty"`
	TitleBy string `json:"titleBy,omitempty"`
	// Weaker says what the sandbox lacks in which an agent was started last.
	Weaker []string `json:"weaker,omitempty"`
	// UpdatedAt is when something was last said or done; a new title or a
	// restarted agent does not count.
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Turns counts prompts, Messages what either side said as a whole, and the
	// characters are those of its text.
	Turns       int   `json:"turns"`
	Messages    int   `json:"messages"`
	ToolCalls   int   `json:"toolCalls"`
	Permissions int   `json:"permissions,omitempty"`
	InputChars  int64 `json:"inputChars"`
	OutputChars int64 `json:"outputChars"`
	Compactions int   `json:"compactionCount"`
	// StopReason is how the last turn ended; empty while one runs and after a crash.
	StopReason acp.StopReason  `json:"stopReason,omitempty"`
	Usage      json.RawMessage `json:"usage,omitempty"`
	// AgentSessions are the agents' own ids of the conversation, by agent. An
	// agent that must begin anew (after a fork, say) is not in it.
	AgentSessions map[string]string `json:"agentSessions,omitempty"`
	// AgentTurns are the last turns that agents were given in these
	// conversations, by agent: what came later they do not know.
	AgentTurns map[string]string `json:"agentTurns,omitempty"`
	// LastTurn is the last turn that an agent was given, or that was cut short.
	LastTurn string `json:"lastTurn,omitempty"`
	// Options are the values that were chosen last, by the id of the option.
	Options    map[string]string `json:"options,omitempty"`
	PreviousID acp.SessionID     `json:"previousSessionId,omitempty"`
	ForkedFrom acp.SessionID     `json:"forkedFrom,omitempty"`
	Parent     acp.SessionID     `json:"parentSessionId,omitempty"`
	Imported   string            `json:"importedFrom,omitempty"`
	// Records and Bytes are the size of the transcript as far as it is summed up.
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// ShownTitle is the title as people see it: of a session in a weaker sandbox, it
// begins with what that lacks.
func (i *Info) ShownTitle() string {
	if len(i.Weaker) == 0 {
		return i.Title
	}
	return i.Mark() + cmp.Or(i.Title, i.Agent+" in "+filepath.Base(i.WorkingPath))
}

// Mark is what ShownTitle puts before the title; mostly nothing.
func (i *Info) Mark() string {
	if len(i.Weaker) == 0 {
		return ""
	}
	return "[weaker sandbox: " + strings.Join(i.Weaker, ", ") + "] "
}

// CheckDir fails with ErrWorkingDir when dir, with its links resolved, is not the
// session's directory.
func (i *Info) CheckDir(dir string) error {
	if sameDir(i, dir) {
		return nil
	}
	return fmt.Errorf("session %s belongs to %s and cannot be opened in %s: %w; open it there, or begin a new session", i.ID, i.WorkingPath, dir, ErrWorkingDir)
}

func sameDir(i *Info, dir string) bool {
	if i.WorkingPath == "" {
		return true // of another program, that did not say
	}
	real, own := realPath(dir), i.RealPath
	if own == "" {
		own = realPath(i.WorkingPath)
	}
	return real == own
}

// realPath is an absolute path without links; as it is when it cannot be resolved.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// fold sums up records, in their order.
type fold struct {
	Info
	// Speaking is what the last update was a piece of.
	Speaking string `json:"speaking,omitempty"`
	Named    bool   `json:"named,omitempty"` // Title is not the first message's
	Headed   bool   `json:"headed,omitempty"`
	Before   string `json:"before,omitempty"` // LastTurn before the one that runs
	Cut      *cut   `json:"cut,omitempty"`    // the last one
	Left     []Span `json:"left,omitempty"`   // the records that rewinds took back
}

// cut is where the conversation begins for agents, because what came before was
// summed up or pruned.
type cut struct {
	At     int    `json:"at"`               // the record that says so, from 1
	LastID string `json:"lastId,omitempty"` // the last record that is left out; empty: the one before At
}

func (f *fold) add(r *Record) {
	f.Records++
	if r.active() && r.Time.After(f.UpdatedAt) {
		f.UpdatedAt = r.Time
	}
	switch b := r.Body.(type) {
	case Header:
		f.header(b)
	case Message:
		if r.TurnID == "" && b.Role == RoleUser {
			f.Turns++ // other programs have no turns
		}
		f.message(b)
	case Update:
		for _, raw := range b.shown() {
			f.update(raw)
		}
	case Permission:
		if b.Request != nil {
			f.Permissions++
		}
	case TurnEvent:
		f.turn(r.TurnID, b)
	case AgentEvent:
		f.agentEvent(b)
	case ConfigChange:
		f.option(b)
	case Title:
		f.Title, f.TitleBy, f.Named = b.Title, b.By, true
	case Compaction:
		f.Compactions++
		f.Cut = &cut{f.Records, b.LastID}
		if b.FreshAgent {
			f.AgentSessions, f.AgentTurns = nil, nil
		}
	case Prune:
		f.Cut = &cut{f.Records, b.LastID}
		f.AgentSessions, f.AgentTurns = nil, nil
	case Rewind:
		f.rewind(r.ID, b)
	case Fork:
		f.AgentSessions, f.AgentTurns, f.Archived = nil, nil, false
	case Archive:
		f.Archived = b.Archived
	}
}

// active reports whether the record is part of the conversation.
func (r *Record) active() bool {
	switch r.Body.(type) {
	case Message:
		return true
	case Update, TurnEvent, Permission:
		return r.TurnID != ""
	}
	return false
}

func (f *fold) header(h Header) {
	if f.Headed {
		return
	}
	f.Headed = true
	f.ID, f.Key, f.Origin, f.Temporary, f.Agent = h.SessionID, h.SessionKey, h.Origin, h.Temporary, h.AgentID
	f.WorkingPath, f.RealPath, f.AdditionalDirectories = h.WorkingPath, h.RealPath, h.AdditionalDirectories
	f.CreatedAt, f.PreviousID, f.ForkedFrom, f.Imported, f.Parent = h.CreatedAt, h.PreviousID, h.ForkedFrom, h.ImportedFrom, h.ParentID
	if f.UpdatedAt.IsZero() {
		f.UpdatedAt = h.CreatedAt
	}
}

func (f *fold) message(m Message) {
	f.Messages++
	f.Speaking = ""
	n := int64(utf8.RuneCountInString(m.Content))
	if m.Role != RoleUser {
		f.OutputChars += n
		return
	}
	f.InputChars += n
	if f.Title == "" {
		f.Title = TitleOf(m.Content)
	}
}

func (f *fold) update(raw json.RawMessage) {
	kind := acp.UpdateKind(raw)
	switch kind {
	case acp.AgentMessageChunk:
		text := stringOf(acp.Member(acp.Member(raw, "content"), "text"))
		f.OutputChars += int64(utf8.RuneCountInString(text))
		if f.Speaking != word(kind) {
			f.Messages++
		}
	case "tool_call":
		f.ToolCalls++
	case "session_info_update":
		var u struct {
			Title string `json:"title"`
		}
		if json.Unmarshal(raw, &u) == nil && u.Title != "" && f.TitleBy != TitleByPerson {
			f.Title, f.TitleBy, f.Named = cleanTitle(u.Title), TitleByAgent, true
		}
		return
	case "usage_update", "available_commands_update", "current_mode_update", "config_option_update":
		return
	}
	f.Speaking = word(kind)
}

// maxWord bounds a word, and maxAgentSession an id, that an agent may choose and that is
// kept, in bytes.
const (
	maxWord         = 64
	maxAgentSession = 1 << 10
)

func word(s string) string { return cutAt(s, min(len(s), maxWord)) }

const maxUsage = 2 << 10 // bytes of a usage that is kept in an Info

func (f *fold) turn(id string, e TurnEvent) {
	f.Speaking = ""
	switch {
	case e.Event == TurnStart && e.Command == "":
		f.Before, f.LastTurn = f.LastTurn, id // if it is cut short it stays the last
	case e.Event == TurnEnd && e.Agent == "" && f.LastTurn == id:
		f.LastTurn = f.Before // nobody was given it
	case e.Event == TurnEnd && e.Agent != "":
		f.LastTurn = id
		if e.AgentSessionID != "" {
			if f.AgentTurns == nil {
				f.AgentTurns = map[string]string{}
			}
			f.AgentTurns[e.Agent] = id
		}
	}
	if e.Event == TurnStart {
		f.Turns++
		f.StopReason = ""
		return
	}
	f.StopReason = acp.StopReason(word(string(e.StopReason)))
	if len(e.Usage) > 0 && len(e.Usage) <= maxUsage {
		f.Usage = e.Usage
	}
}

func (f *fold) agentEvent(e AgentEvent) {
	if e.Event != AgentStarted || e.Agent == "" {
		return
	}
	f.Agent, f.Weaker = e.Agent, e.Weaker
	if !e.Resumed {
		delete(f.AgentTurns, e.Agent)
	}
	if e.AgentSessionID != "" && len(e.AgentSessionID) <= maxAgentSession {
		if f.AgentSessions == nil {
			f.AgentSessions = map[string]string{}
		}
		f.AgentSessions[e.Agent] = e.AgentSessionID
	}
}

// optionAgent is the id of the option that chooses who answers.
const optionAgent = "agent"

func (f *fold) option(c ConfigChange) {
	var value string
	if json.Unmarshal(c.Value, &value) != nil {
		return // a switch: clients give it again
	}
	if f.Options == nil {
		f.Options = map[string]string{}
	}
	f.Options[c.ConfigID] = value
	if c.ConfigID == optionAgent {
		for _, own := range []string{acp.CategoryModel, acp.CategoryMode, acp.CategoryThoughtLevel} {
			delete(f.Options, own) // another agent has others
		}
		f.Agent = value
	}
}

// Who chose a title.
const (
	TitleByPerson = "person"
	TitleByAgent  = "agent"
)

// Lengths of titles, in characters.
const (
	maxTitle     = 120
	maxTitleFrom = 72 // of one made from a message
)

// TitleOf makes a title of what a person asked: its first line that says
// something, shortened at a word. It is empty when nothing does.
func TitleOf(message string) string {
	for line := range strings.Lines(message) {
		line = cleanTitle(strings.TrimLeft(strings.TrimSpace(line), "#>*-` "))
		if line != "" {
			return shorten(line, maxTitleFrom)
		}
	}
	return ""
}

// cleanTitle is a title on one line, without what could control a terminal.
func cleanTitle(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f, 0x80 <= r && r < 0xa0:
			return -1
		case 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069: // they reverse what follows
			return -1
		}
		return r
	}, s)
	return shorten(strings.Join(strings.Fields(s), " "), maxTitle)
}

// shorten cuts s to n characters, at a space when one is near.
func shorten(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	cut := string(runes[:n-1])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)*2/3 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,.;:") + "…"
}

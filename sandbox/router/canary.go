package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
)

// leaks looks for content of closed files in what an agent says.
type leaks struct {
	*confine.Leaks
	// The agent's texts come in pieces. They belong to who passes updates on.
	said, thought *confine.Stream
}

func newLeaks(s *session) *leaks {
	o := confine.LeakOptions{Project: s.cwd, Also: s.dirs, Context: s.ctx, Notice: s.notice, Stop: s.halt, Spawn: s.spawn, Log: s.log}
	o.Mode = s.r.opts.Terms.Canaries(s.cwd)
	if rules := s.r.opts.Terms.Rules(); rules != nil {
		o.Own = rules.Own
	}
	l := confine.NewLeaks(o)
	return &leaks{l, l.Stream(leakSaid), l.Stream(leakSaid)}
}

// What the agent says, and what it asks the person, is recorded and shown.
const (
	leakSaid    = "what the agent says and does here, which is recorded"
	leakAsked   = "a question of the agent, which is recorded"
	leakChanged = "what the turn has changed in files, which is recorded"
)

// error looks at why something of the agent's has ended, which may be in its own
// words, before it is recorded and shown: what must not be is replaced.
func (l *leaks) error(err error) error {
	if err == nil {
		return nil
	}
	said := []byte(err.Error())
	if e, ok := errors.AsType[*acp.Error](err); ok {
		said = append(said, marshal(e)...)
	}
	if leak := l.Check(leakSaid, said); leak != nil {
		return acp.Internal(fmt.Sprintf("the agent's words are left out: %v", leak), nil)
	}
	return err
}

var (
	// textField begins the text of a message chunk.
	textField = []byte(`"text":"`)
	// liveField is in every _meta of which acp.LiveOutput is a text.
	liveField = []byte(`live_output`)
)

// update looks at what the agent says and shows, before it is recorded and passed
// on. An error means that it must not be. Updates come one at a time.
func (l *leaks) update(kind string, update []byte) error {
	if !l.On() || l.Known() == 0 {
		return nil
	}
	switch kind {
	case "agent_message_chunk":
		return l.chunk(l.said, update)
	case "agent_thought_chunk":
		return l.chunk(l.thought, update)
	}
	return l.Check(leakSaid, update)
}

// chunk is update for a piece of a text, which goes on in a stream.
func (l *leaks) chunk(text *confine.Stream, update []byte) error {
	if !l.On() || l.Known() == 0 {
		return nil
	}
	if _, after, ok := bytes.Cut(update, textField); ok {
		update = after[:textEnd(after)] // pieces of a text join without what is around them
	}
	_, err := text.Write(update)
	return err
}

// leakPieces looks at what a tool prints while it runs, which comes in pieces.
type leakPieces struct {
	l      *leaks
	stream *confine.Stream
}

func (l *leaks) pieces() *leakPieces { return &leakPieces{l, l.Stream(leakSaid)} }

// next looks for what only the next piece, in an update's _meta, has made whole. An error
// means that the update must not be recorded or passed on.
func (p *leakPieces) next(meta json.RawMessage) error {
	if !p.l.On() || !bytes.Contains(meta, liveField) {
		return nil
	}
	var said map[string]json.RawMessage
	_ = json.Unmarshal(meta, &said)                    // anything else prints nothing
	return p.stream.Join([]byte(acp.LiveOutput(said))) // what it holds by itself update sees
}

// textEnd is where a JSON string ends.
func textEnd(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// howToGoOn is what a person can do about a session that was stopped.
const howToGoOn = "Send /reset, and the agent begins anew, without it; or load the session again, and the agent goes on."

// halt ends what runs, the agent too, and lets no prompt be answered before the person
// has had the agent begin anew, or has opened the session again.
func (s *session) halt(why string) {
	s.mu.Lock()
	again := s.halted != ""
	s.halted = why
	s.mu.Unlock()
	if again {
		s.notice("error", why)
		return
	}
	s.tell("error", why+" The session is stopped (policy.canaries: stop): what ran was ended, and no prompt is answered. "+howToGoOn)
	s.cancelTurns(&haltError{why})
	s.restart(false)
}

// stopped is why the session's prompts are not answered; nil when they are.
func (s *session) stopped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted == "" {
		return nil
	}
	return acp.Internal("The session was stopped (policy.canaries: stop). "+s.halted+" "+howToGoOn, json.RawMessage(byPolicy))
}

// spawn runs f on a goroutine that close waits for; not any more once the session
// is closed.
func (s *session) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
}

package replay

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// readTranscript reads a transcript: one session.
func readTranscript(ctx context.Context, path string) (*Recording, error) {
	s := &Session{ID: acp.SessionID(strings.TrimSuffix(filepath.Base(path), ".jsonl"))}
	r := &Recording{Sessions: []*Session{s}}
	open := "" // the turn that runs; other tools' have no id
	for rec, err := range sessions.ReadFile(ctx, path) {
		if err != nil {
			return nil, err
		}
		switch b := rec.Body.(type) {
		case sessions.Header:
			s.CWD = b.WorkingPath
			if b.SessionID != "" {
				s.ID = b.SessionID
			}
		case sessions.Message:
			s.message(b, rec, &open)
		case sessions.TurnEvent:
			s.event(b, rec, &open)
		case sessions.Update:
			sent := b.Sent
			if sent == nil && b.Update != nil {
				sent = append(sent, b.Update)
			}
			for _, u := range sent {
				s.add(Step{Time: rec.Time, Update: u})
			}
		case sessions.Permission:
			if b.Request != nil {
				s.question(b.Request, rec.Time)
			}
		case sessions.Unknown:
			r.Skipped++
		}
	}
	if open == "" {
		s.end()
	}
	return r, nil
}

// message is a prompt, or what an agent said where nothing but that was kept.
func (s *Session) message(m sessions.Message, rec sessions.Record, open *string) {
	switch m.Role {
	case sessions.RoleUser:
		t := s.last()
		if t == nil || t.Ended || t.Prompt != nil { // no start was recorded
			if *open == "" || t != nil && len(t.Steps) > 0 {
				s.end()
			}
			t = &Turn{Begun: rec.Time}
			s.Turns = append(s.Turns, t)
			*open = rec.TurnID
		}
		t.Prompt = m.Blocks
		if len(m.Blocks) == 0 {
			t.Prompt = []acp.ContentBlock{acp.TextBlock(m.Content)}
		}
	case sessions.RoleAssistant:
		s.add(Step{Time: rec.Time, Update: acp.MessageChunk(acp.AgentMessageChunk, rec.ID, m.Content)})
	}
}

// end ends the last turn, if its end was never recorded, as the ones of other tools are.
func (s *Session) end() {
	if t := s.last(); t != nil && !t.Ended {
		t.Ended, t.StopReason = true, acp.StopEndTurn
	}
}

func (s *Session) event(e sessions.TurnEvent, rec sessions.Record, open *string) {
	switch e.Event {
	case sessions.TurnStart:
		if *open == "" {
			s.end()
		}
		*open = rec.TurnID
		s.Turns = append(s.Turns, &Turn{Begun: rec.Time})
	case sessions.TurnEnd:
		t := s.last()
		if t == nil || t.Ended || *open != rec.TurnID {
			return // of a turn that is not there
		}
		t.Ended, t.StopReason, t.Usage = true, e.StopReason, e.Usage
		if e.Error != "" || e.StopReason == "" {
			t.Failure = acp.Internal(fmt.Sprintf("this turn failed when it was recorded: %s", e.Error), nil)
		}
	}
}

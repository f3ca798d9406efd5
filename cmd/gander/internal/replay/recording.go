// Package replay plays a recording back as an ACP agent: a transcript
// (sessions/<id>.jsonl) or a trace (gander acp --trace FILE). Nothing is run and no
// model is asked; what was sent then is sent again, turn by turn, the same on
// every run.
//
// [Read] reads a file, [New] makes the agent for one connection.
package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"gander.dev/gander/acp"
)

// ErrEmpty says that a file has nothing to play.
var ErrEmpty = errors.New("there is no turn in it; a transcript (sessions/<id>.jsonl) or a trace (gander acp --trace FILE) has some")

// A Recording is what a file tells.
type Recording struct {
	// Sessions are in the order in which they began; there is at least one.
	Sessions []*Session
	// Skipped is how many lines said nothing that can be played: records of a
	// later version, damaged lines, a torn end.
	Skipped int
}

// A Session is one recorded conversation.
type Session struct {
	ID  acp.SessionID
	CWD string
	// Modes and ConfigOptions are what the agent offered, when that was recorded.
	Modes         *acp.SessionModeState
	ConfigOptions []acp.ConfigOption
	// Opening are the updates before the first turn.
	Opening []Step
	Turns   []*Turn
}

// A Turn is a prompt and what came of it.
type Turn struct {
	Prompt []acp.ContentBlock
	Begun  time.Time
	Steps  []Step
	// After are the updates between this turn and the next.
	After []Step
	// Ended is false of a turn that the recording has no end of.
	Ended      bool
	StopReason acp.StopReason
	Usage      json.RawMessage
	// Failure is set, instead of StopReason, when the prompt was answered with an error.
	Failure *acp.Error
}

// A Step is one thing that the agent did: an update, or a question.
type Step struct {
	Time     time.Time
	Update   json.RawMessage
	Question *acp.RequestPermissionRequest
}

// Read reads a recording, whatever of the two it is. The error is ErrEmpty when
// it is neither.
func Read(ctx context.Context, path string) (*Recording, error) {
	trace, err := isTrace(path)
	if err != nil {
		return nil, err
	}
	var r *Recording
	if trace {
		r, err = readTrace(path)
	} else {
		r, err = readTranscript(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	if len(r.Sessions) == 0 || len(r.Sessions[0].Turns) == 0 {
		return nil, ErrEmpty
	}
	return r, nil
}

// isTrace looks at the first line that is JSON.
func isTrace(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		var first struct{ Type, Dir string }
		if json.Unmarshal(line, &first) == nil {
			return first.Type == "" && first.Dir != "", nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// last is the turn that runs or has run last; nil before the first.
func (s *Session) last() *Turn {
	if len(s.Turns) == 0 {
		return nil
	}
	return s.Turns[len(s.Turns)-1]
}

// add puts a step where it belongs.
func (s *Session) add(st Step) {
	switch t := s.last(); {
	case t == nil:
		s.Opening = append(s.Opening, st)
	case t.Ended:
		t.After = append(t.After, st)
	default:
		t.Steps = append(t.Steps, st)
	}
}

package replay

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"gander.dev/gander/acp"
)

// traced is a line of a trace.
type traced struct {
	Time  time.Time
	Dir   acp.Direction
	Frame *struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
		Result json.RawMessage
		Error  *acp.Error
	}
}

// tracing reads a trace.
type tracing struct {
	Recording
	asked map[string]asked // requests of the client without an answer, by id
}

type asked struct {
	method, cwd string
	session     acp.SessionID
}

func readTrace(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := tracing{asked: map[string]asked{}}
	in := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			t.line(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	t.Sessions = slices.DeleteFunc(t.Sessions, func(s *Session) bool { return len(s.Turns) == 0 })
	return &t.Recording, nil
}

func (t *tracing) line(line []byte) {
	var l traced
	if json.Unmarshal(line, &l) != nil || l.Frame == nil {
		t.Skipped++
		return
	}
	switch {
	case l.Dir == acp.In && l.Frame.Method != "":
		t.request(l)
	case l.Dir == acp.Out && l.Frame.Method != "":
		t.said(l)
	case l.Dir == acp.Out:
		t.answer(l)
	}
}

func (t *tracing) session(id acp.SessionID) *Session {
	i := slices.IndexFunc(t.Sessions, func(s *Session) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return t.Sessions[i]
}

func (t *tracing) request(l traced) {
	var p struct {
		SessionID acp.SessionID
		CWD       string
		Prompt    []acp.ContentBlock
	}
	_ = json.Unmarshal(l.Frame.Params, &p) // what is not there is not needed
	t.asked[string(l.Frame.ID)] = asked{l.Frame.Method, p.CWD, p.SessionID}
	s := t.session(p.SessionID)
	switch {
	case l.Frame.Method == acp.MethodLoadSession && s == nil:
		t.Sessions = append(t.Sessions, &Session{ID: p.SessionID, CWD: p.CWD})
	case l.Frame.Method == acp.MethodPrompt && s != nil:
		s.Turns = append(s.Turns, &Turn{Prompt: p.Prompt, Begun: l.Time})
	}
}

func (t *tracing) said(l traced) {
	var p struct {
		SessionID acp.SessionID
		Update    json.RawMessage
	}
	_ = json.Unmarshal(l.Frame.Params, &p) // what is not there is not needed
	s := t.session(p.SessionID)
	switch {
	case s == nil:
	case l.Frame.Method == acp.MethodSessionUpdate && p.Update != nil:
		s.add(Step{Time: l.Time, Update: p.Update})
	case l.Frame.Method == acp.MethodRequestPermission:
		s.question(l.Frame.Params, l.Time)
	}
}

func (t *tracing) answer(l traced) {
	was, ok := t.asked[string(l.Frame.ID)]
	if !ok {
		return
	}
	delete(t.asked, string(l.Frame.ID))
	switch was.method {
	case acp.MethodNewSession, acp.MethodLoadSession, acp.MethodResumeSession:
		t.opened(l, was)
	case acp.MethodPrompt:
		s := t.session(was.session)
		if s == nil || s.last() == nil || s.last().Ended {
			return
		}
		end := s.last()
		end.Ended, end.Failure = true, l.Frame.Error
		var result acp.PromptResponse
		_ = json.Unmarshal(l.Frame.Result, &result) // an error has none
		end.StopReason, end.Usage = result.StopReason, result.Usage
	}
}

func (t *tracing) opened(l traced, was asked) {
	if l.Frame.Error != nil {
		return
	}
	var result acp.NewSessionResponse
	_ = json.Unmarshal(l.Frame.Result, &result) // what is not there is not offered
	id := result.SessionID
	if was.session != "" {
		id = was.session
	}
	s := t.session(id)
	if s == nil {
		s = &Session{ID: id, CWD: was.cwd}
		t.Sessions = append(t.Sessions, s)
	}
	s.Modes, s.ConfigOptions = result.Modes, result.ConfigOptions
}

// question adds a request for permission.
func (s *Session) question(params json.RawMessage, at time.Time) {
	q := new(acp.RequestPermissionRequest)
	if json.Unmarshal(params, q) == nil {
		s.add(Step{Time: at, Question: q})
	}
}

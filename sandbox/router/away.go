package router

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/notify"
)

// askPermission asks the person in the editor, and elsewhere at the same time where
// Options.Away is set. The first answer holds; the other question is withdrawn.
func (s *session) askPermission(ctx context.Context, agent string, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	q := s.question("permission", agent)
	var call struct {
		Title    string          `json:"title"`
		RawInput json.RawMessage `json:"rawInput"`
		Content  []struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"content"`
	}
	_ = json.Unmarshal(req.ToolCall, &call) // without a title it has the agent's name
	q.Title = call.Title
	texts := []string{string(call.RawInput)}
	for _, c := range call.Content {
		texts = append(texts, c.Content.Text)
	}
	q.Text = strings.TrimSpace(strings.Join(texts, "\n"))
	for _, o := range req.Options {
		q.Options = append(q.Options, notify.Option{ID: o.OptionID, Name: o.Name, Kind: o.Kind})
	}
	return first(ctx, s, q, func(ctx context.Context) (*acp.RequestPermissionResponse, error) {
		return s.r.client.RequestPermission(ctx, req)
	}, func(a notify.Answer) *acp.RequestPermissionResponse {
		return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: a.Option}}
	})
}

// askForm is askPermission for a form.
func (s *session) askForm(ctx context.Context, agent string, req *acp.CreateElicitationRequest) (*acp.CreateElicitationResponse, error) {
	q := s.question("form", agent)
	q.Title, q.Schema = req.Message, req.RequestedSchema
	return first(ctx, s, q, func(ctx context.Context) (*acp.CreateElicitationResponse, error) {
		return s.r.client.CreateElicitation(ctx, req)
	}, func(a notify.Answer) *acp.CreateElicitationResponse {
		return &acp.CreateElicitationResponse{Action: a.Action, Content: a.Content}
	})
}

const (
	maxAwayTitle = 300 // characters
	maxAwayText  = 20_000
)

func (s *session) question(kind, agent string) notify.Question {
	return notify.Question{ID: "question-" + newID(), Kind: kind, Agent: agent, Session: string(s.id), Project: filepath.Base(s.cwd), Dir: s.cwd}
}

// first returns the answer that comes first: the editor's, or one from elsewhere.
func first[T any](ctx context.Context, s *session, q notify.Question, editor func(context.Context) (T, error), elsewhere func(notify.Answer) T) (T, error) {
	away := s.r.opts.Away
	if away == nil {
		return editor(ctx)
	}
	q.Title, q.Text = cutRunes(q.Title, maxAwayTitle), cutRunes(q.Text, maxAwayText)
	if q.Title == "" {
		q.Title = q.Agent + " asks"
	}
	ctx, stop := context.WithCancel(ctx)
	answered := make(chan notify.Answer, 1)
	go func() { // ends with ctx, at the latest
		defer stop()
		if a, err := away(ctx, q); err == nil {
			answered <- a
			return
		}
		<-ctx.Done() // the editor answers
	}()
	said, err := editor(ctx)
	stop()
	if err == nil {
		return said, nil
	}
	select {
	case a := <-answered:
		return elsewhere(a), nil
	default:
		return said, err
	}
}

// cutRunes returns the beginning of a text.
func cutRunes(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}

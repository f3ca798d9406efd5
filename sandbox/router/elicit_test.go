package router

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// elicitRig is a rig whose agent asks the person in a turn, and what it is answered.
func elicitRig(t *testing.T, offered acp.ElicitationCapabilities, params string) (*rig, *string, *error) {
	t.Helper()
	answer, failed := new(string), new(error)
	r := newRigFor(t, acp.ClientCapabilities{Elicitation: offered}, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			got, err := c.params.Client.(acp.RequestHandler).HandleRequest(ctx, acp.MethodCreateElicitation, json.RawMessage(params))
			raw, _ := json.Marshal(got)
			*answer, *failed = string(raw), err
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	return r, answer, failed
}

var bothModes = acp.ElicitationCapabilities{Form: json.RawMessage(`{}`), URL: json.RawMessage(`{}`)}

// A question reaches the person under the session's own id and says who asks; what the
// person writes reaches the agent and nobody else.
func TestQuestionOfTheAgent(t *testing.T) {
	r, answer, failed := elicitRig(t, bothModes, `{"sessionId":"inner","mode":"form","message":"Which branch?","toolCallId":"t1","requestedSchema":{"type":"object","properties":{"b":{"type":"string"}}},"url":"https://elsewhere.example"}`)
	var asked string
	r.editor.Request = func(_ context.Context, method string, params json.RawMessage) (any, error) {
		asked = method + string(params)
		return json.RawMessage(`{"action":"accept","content":{"b":"the-answer-7"}}`), nil
	}
	s := r.editor.NewSession(t, t.TempDir())
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	want := `elicitation/create{"mode":"form","message":"duck asks from its sandbox: Which branch?","requestedSchema":{"type":"object","properties":{"b":{"type":"string"}}},"sessionId":"` + string(s.SessionID) + `","toolCallId":"t1"}`
	if asked != want {
		t.Errorf("the editor was asked\n%s, want\n%s", asked, want)
	}
	if *failed != nil || *answer != `{"action":"accept","content":{"b":"the-answer-7"}}` {
		t.Errorf("the agent was answered %s, %v", *answer, *failed)
	}
	if offered := r.agent.conv().params.Capabilities.Elicitation; offered.Form == nil || offered.URL != nil {
		t.Errorf("the agent is offered %+v", offered)
	}
	var kept []string
	for rec, err := range r.store.Entries(t.Context(), s.SessionID) {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := rec.Body.(sessions.Elicitation); ok {
			kept = append(kept, e.Action)
		}
		if strings.Contains(string(rec.Raw), "the-answer-7") {
			t.Errorf("the transcript has %s", rec.Raw)
		}
	}
	if len(kept) != 2 || kept[0] != "" || kept[1] != "accept" {
		t.Errorf("the transcript has the actions %q", kept)
	}
}

// Whatever is no consent that is understood is none.
func TestAnswersThatAreNone(t *testing.T) {
	for said, want := range map[string]string{
		`{"action":"decline","content":{"a":1}}`: `{"action":"decline"}`,
		`{"action":"cancel"}`:                    `{"action":"cancel"}`,
		`{"action":"sure","content":{"a":1}}`:    `{"action":"cancel"}`,
		`{}`:                                     `{"action":"cancel"}`,
	} {
		r, answer, failed := elicitRig(t, bothModes, `{"mode":"form","message":"?","requestedSchema":{}}`)
		r.editor.Request = func(context.Context, string, json.RawMessage) (any, error) { return json.RawMessage(said), nil }
		s := r.editor.NewSession(t, t.TempDir())
		r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
		if *answer != want || *failed != nil {
			t.Errorf("the person's %s reaches the agent as %s, %v", said, *answer, *failed)
		}
	}
}

// What was not offered never reaches the person: a form where the editor has none, and
// an address anywhere.
func TestQuestionsThatWereNotOffered(t *testing.T) {
	for params, offered := range map[string]acp.ElicitationCapabilities{
		`{"mode":"form","message":"?","requestedSchema":{}}`:                                 {URL: bothModes.URL},
		`{"mode":"url","message":"?","elicitationId":"1","url":"https://x.example/?secret"}`: bothModes,
		`{"mode":"form","message":"","requestedSchema":{}}`:                                  bothModes,
		`{"mode":"form","message":"?","requestedSchema":[]}`:                                 bothModes,
		`{"mode":7}`: bothModes,
	} {
		r, _, failed := elicitRig(t, offered, params)
		r.editor.Request = func(_ context.Context, method string, params json.RawMessage) (any, error) {
			t.Errorf("the editor was asked %s %s", method, params)
			return nil, acp.ErrMethodNotFound
		}
		s := r.editor.NewSession(t, t.TempDir())
		r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
		if errorCode(*failed) != acp.CodeInvalidParams {
			t.Errorf("%s: the agent is answered %v", params, *failed)
		}
	}
}

// A cancel of the turn answers the question.
func TestCancelledQuestion(t *testing.T) {
	r, answer, _ := elicitRig(t, bothModes, `{"mode":"form","message":"?","requestedSchema":{}}`)
	asked := make(chan struct{})
	r.editor.Request = func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s := r.editor.NewSession(t, t.TempDir())
	done := r.prompt(t, s.SessionID, "x")
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("waited in vain for the question")
	}
	r.cancel(t, s.SessionID)
	if got := <-done; got.stop != acp.StopCancelled {
		t.Errorf("the turn ended with %+v", got)
	}
	if *answer != `{"action":"cancel"}` {
		t.Errorf("the agent is answered %s", *answer)
	}
}

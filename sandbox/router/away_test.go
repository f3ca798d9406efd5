package router

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/notify"
)

// TestAnsweredElsewhere checks that a permission that the editor does not answer can be answered
// elsewhere, that the editor's question is withdrawn then, and that the editor's answer ends the
// asking elsewhere.
func TestAnsweredElsewhere(t *testing.T) {
	kind := "allow_once"
	asked, over := make(chan notify.Question, 1), make(chan struct{}, 1)
	shown, withdrawn := make(chan struct{}, 1), make(chan struct{}, 1)
	elsewhere := true
	r := askRig(t, &kind, func(r *rig) {
		r.opts.Away = func(ctx context.Context, q notify.Question) (notify.Answer, error) {
			if elsewhere {
				asked <- q
				<-shown
				return notify.Answer{Option: "reject_once"}, nil
			}
			<-ctx.Done()
			over <- struct{}{}
			return notify.Answer{}, ctx.Err()
		}
	})
	editor := r.editor.Permission
	r.editor.Permission = func(ctx context.Context, _ *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		shown <- struct{}{}
		<-ctx.Done()
		withdrawn <- struct{}{}
		return acp.CancelledOutcome(), nil
	}
	s := r.editor.NewSession(t, t.TempDir())
	r.wantStop(t, s.SessionID, shellCall("make"), acp.StopEndTurn)
	q := <-asked
	r.journal.wait(t, "answered reject_once", 1)
	if q.Kind != "permission" || q.Agent != "duck" || q.Session != string(s.SessionID) || q.Title == "" || len(q.Options) < 2 {
		t.Errorf("asked elsewhere was %+v", q)
	}
	waitFor(t, withdrawn)
	elsewhere, r.editor.Permission = false, editor
	r.wantStop(t, s.SessionID, shellCall("make test"), acp.StopEndTurn)
	r.journal.wait(t, "answered allow_once", 1)
	waitFor(t, over)
}

// TestFormElsewhere checks the same of a form.
func TestFormElsewhere(t *testing.T) {
	r := newRigFor(t, acp.ClientCapabilities{Elicitation: bothModes}, func(r *rig) {
		r.opts.Away = func(_ context.Context, q notify.Question) (notify.Answer, error) {
			if q.Kind != "form" || string(q.Schema) != `{"type":"object"}` {
				return notify.Answer{}, errors.New("no form")
			}
			return notify.Answer{Action: "accept", Content: json.RawMessage(`{"b":"main"}`)}, nil
		}
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			got, err := c.params.Client.(acp.RequestHandler).HandleRequest(ctx, acp.MethodCreateElicitation, json.RawMessage(`{"mode":"form","message":"Which branch?","requestedSchema":{"type":"object"}}`))
			raw, _ := json.Marshal(got)
			c.a.journal.add("answered %s %v", raw, err)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	r.editor.Request = func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s := r.editor.NewSession(t, t.TempDir())
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	r.journal.wait(t, `answered {"action":"accept","content":{"b":"main"}} <nil>`, 1)
}

func waitFor(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal("waited a minute")
	}
}

package router

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

const canaryToken = "tok-1a2b3c4d5e6f7g8h"

// canaryRig is a rig whose project has a closed file, and a turn of its agent.
func canaryRig(t *testing.T, mode string, way *Way, onTurn func(context.Context, *fakeConv) error) (*rig, acp.SessionID) {
	t.Helper()
	r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}}, func(r *rig) {
		r.opts.Canaries = func(string) string { return mode }
		r.opts.Rules = &sandbox.Rules{}
		r.opts.OpenModel = func(w Way) (Model, error) { *way = w; return r.openModel(w) }
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			if mode != CanariesOff {
				await(t, "the closed files to be known", func() bool { return way.Leaks.set.Len() > 0 })
			}
			if err := onTurn(ctx, c); err != nil {
				return nil, err
			}
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("\nAPI_KEY="+canaryToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return r, r.editor.NewSession(t, dir).SessionID
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("waited for %s", what)
			return
		}
	}
}

// said is all that the editor was told in a session.
func (r *rig) said(id acp.SessionID) string {
	var b strings.Builder
	for _, u := range r.editor.Updates(id) {
		b.Write(u)
		b.WriteByte('\n')
	}
	return b.String()
}

func TestLeakIsShown(t *testing.T) {
	var way Way
	r, id := canaryRig(t, CanariesShow, &way, func(_ context.Context, c *fakeConv) error {
		c.say("it is " + canaryToken[:7])
		c.say(canaryToken[7:] + ", I think")
		if err := way.Leaks.Check("a call of the model", []byte(`{"x":"`+canaryToken+`"}`)); err != nil {
			t.Error(err)
		}
		if _, err := way.Leaks.Writer("a connection").Write([]byte(canaryToken)); err != nil {
			t.Error(err)
		}
		return nil
	})
	r.wantStop(t, id, "go", acp.StopEndTurn)
	for _, where := range []string{"what the agent says", "a call of the model", "a connection"} {
		r.editor.Wait(t, "a notice about "+where, func() bool {
			return strings.Contains(r.said(id), "closed file .env (line 2) was seen in "+where)
		})
	}
	if !strings.Contains(r.said(id), "tok-1a2") {
		t.Error("what was said is missing")
	}
}

func TestLeakStopsTheTurn(t *testing.T) {
	for name, leak := range map[string]func(way Way, c *fakeConv){
		"said in pieces": func(_ Way, c *fakeConv) { c.say("it is " + canaryToken[:7]); c.say(canaryToken[7:]) },
		"a tool's output": func(_ Way, c *fakeConv) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"cat","status":"completed","content":[{"type":"content","content":{"type":"text","text":"` + canaryToken + `"}}]}`)
		},
		"a model call": func(way Way, _ *fakeConv) {
			if err := way.Leaks.Check("a call of the model", []byte(canaryToken)); err == nil {
				t.Error("the call may leave")
			}
		},
		"a connection": func(way Way, _ *fakeConv) {
			w := way.Leaks.Writer("a connection")
			_, _ = w.Write([]byte(canaryToken[:9]))
			if _, err := w.Write([]byte(canaryToken[9:])); err == nil {
				t.Error("the rest may leave")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var way Way
			r, id := canaryRig(t, CanariesStop, &way, func(ctx context.Context, c *fakeConv) error {
				leak(way, c)
				_, err := untilCancelled(ctx, c, "")
				return err
			})
			r.wantStop(t, id, "go", acp.StopCancelled)
			if strings.Contains(r.said(id), canaryToken) || strings.Contains(r.said(id), canaryToken[7:]) {
				t.Errorf("the token got out: %s", r.said(id))
			}
		})
	}
}

func TestCanariesAreOff(t *testing.T) {
	var way Way
	r, id := canaryRig(t, CanariesOff, &way, func(_ context.Context, c *fakeConv) error {
		c.say("it is " + canaryToken)
		return way.Leaks.Check("a call of the model", []byte(canaryToken))
	})
	r.wantStop(t, id, "go", acp.StopEndTurn)
	if strings.Contains(r.said(id), "closed file") || way.Leaks.set.Len() != 0 {
		t.Errorf("%d tokens are known: %s", way.Leaks.set.Len(), r.said(id))
	}
}

package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
)

const canaryToken = "tok-1a2b3c4d5e6f7g8h"

// canaryRig is a rig whose project has a closed file, and a turn of its agent.
func canaryRig(t *testing.T, mode string, way *confine.Way, onTurn func(context.Context, *fakeConv) error) (*rig, acp.SessionID) {
	t.Helper()
	r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}, Elicitation: bothModes}, func(r *rig) {
		r.terms.canaries = mode
		r.terms.rules = &sandbox.Rules{}
		r.driver.isolated = true
		r.terms.openModel = func(w confine.Way) (confine.Model, error) { *way = w; return r.openModel(w) }
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			if mode != confine.CanariesOff {
				await(t, "the closed files to be known", func() bool { return way.Leaks.Known() > 0 })
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

// kept is the transcript of a session.
func (r *rig) kept(t *testing.T, id acp.SessionID) string {
	t.Helper()
	var b strings.Builder
	for rec, err := range r.store.Entries(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		b.Write(rec.Raw)
		b.WriteByte('\n')
	}
	return b.String()
}

// wantNowhere fails the test when the token has come to the editor, in whatever it is
// told and asked, or into the transcript.
func (r *rig) wantNowhere(t *testing.T, id acp.SessionID) {
	t.Helper()
	r.mu.Lock()
	sent := strings.Join(r.frames, "\n")
	r.mu.Unlock()
	for where, text := range map[string]string{"the editor": sent, "the transcript": r.kept(t, id)} {
		if strings.Contains(text, canaryToken) || strings.Contains(text, canaryToken[7:]) {
			t.Errorf("the token got to %s: %s", where, text)
		}
	}
}

func TestLeakIsShown(t *testing.T) {
	var way confine.Way
	r, id := canaryRig(t, confine.CanariesShow, &way, func(_ context.Context, c *fakeConv) error {
		c.say("it is " + canaryToken[:7])
		c.say(canaryToken[7:] + ", I think")
		if err := way.Leaks.Check("a call of the model", []byte(`{"x":"`+canaryToken+`"}`)); err != nil {
			t.Error(err)
		}
		if _, err := way.Leaks.Stream("a connection").Write([]byte(canaryToken)); err != nil {
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
	for name, leak := range map[string]func(ctx context.Context, way confine.Way, c *fakeConv){
		"a question": func(ctx context.Context, _ confine.Way, c *fakeConv) {
			if got := c.ask(ctx, `{"toolCallId":"c","title":"run `+canaryToken+`"}`); got != "cancelled " {
				t.Errorf("the agent was answered %q", got)
			}
		},
		"what a question shows": func(ctx context.Context, _ confine.Way, c *fakeConv) {
			c.ask(ctx, `{"toolCallId":"c","title":"run","content":[{"type":"content","content":{"type":"text","text":"`+canaryToken+`"}}]}`)
		},
		"a form": func(ctx context.Context, _ confine.Way, c *fakeConv) {
			_, err := c.params.Client.(acp.RequestHandler).HandleRequest(ctx, acp.MethodCreateElicitation, []byte(`{"mode":"form","message":"Is it `+canaryToken+`?","requestedSchema":{}}`))
			if err != nil {
				t.Error(err)
			}
		},
		"the name of a host": func(ctx context.Context, way confine.Way, _ *fakeConv) {
			if got := way.Ask(ctx, canaryToken+".example", 443); got != egress.Unasked {
				t.Errorf("the host is allowed: %q", got)
			}
		},
		"the name of a mode": func(_ context.Context, _ confine.Way, c *fakeConv) {
			c.update(`{"sessionUpdate":"current_mode_update","currentModeId":"` + canaryToken + `"}`)
		},
		"the name of a command": func(_ context.Context, _ confine.Way, c *fakeConv) {
			c.update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"x","description":"` + canaryToken + `"}]}`)
			c.update(`{"sessionUpdate":"available_commands_update","availableCommands":[]}`)
		},
		"the name of an option": func(_ context.Context, _ confine.Way, c *fakeConv) {
			c.mu.Lock()
			c.state.ConfigOptions = []acp.ConfigOption{acpagent.SelectOption("the-model", "LLM", acp.CategoryModel, "small", []acp.ConfigOptionValue{{Value: "small", Name: canaryToken}})}
			c.mu.Unlock()
			c.update(`{"sessionUpdate":"config_option_update","configOptions":[]}`)
		},
		"said in pieces": func(_ context.Context, _ confine.Way, c *fakeConv) {
			c.say("it is " + canaryToken[:7])
			c.say(canaryToken[7:])
		},
		"a tool's output": func(_ context.Context, _ confine.Way, c *fakeConv) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"cat","status":"completed","content":[{"type":"content","content":{"type":"text","text":"` + canaryToken + `"}}]}`)
		},
		"a tool's output while it runs": func(_ context.Context, _ confine.Way, c *fakeConv) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"cat","status":"in_progress"}`)
			for _, piece := range []struct{ call, text string }{{"c", canaryToken[:7]}, {"other", "in between"}, {"c", canaryToken[7:]}} {
				c.update(string(marshal(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": piece.call, "_meta": acp.LiveOutputMeta(piece.text)})))
			}
		},
		"a model call": func(_ context.Context, way confine.Way, _ *fakeConv) {
			if err := way.Leaks.Check("a call of the model", []byte(canaryToken)); err == nil {
				t.Error("the call may leave")
			}
		},
		"a connection": func(_ context.Context, way confine.Way, _ *fakeConv) {
			w := way.Leaks.Stream("a connection")
			_, _ = w.Write([]byte(canaryToken[:9]))
			if _, err := w.Write([]byte(canaryToken[9:])); err == nil {
				t.Error("the rest may leave")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var way confine.Way
			r, id := canaryRig(t, confine.CanariesStop, &way, func(ctx context.Context, c *fakeConv) error {
				leak(ctx, way, c)
				_, err := untilCancelled(ctx, c, "")
				return err
			})
			r.wantStop(t, id, "go", acp.StopCancelled)
			r.wantNowhere(t, id)
		})
	}
}

// A turn that ends by itself while it is being stopped was stopped all the same, and who
// prompted can tell that from a cancel.
func TestLeakInTheLastWords(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, c *fakeConv) error{
		"the end":  func(context.Context, *fakeConv) error { return nil },
		"an error": func(context.Context, *fakeConv) error { return errors.New("it is " + canaryToken) },
		"the stop": func(ctx context.Context, c *fakeConv) error { _, err := untilCancelled(ctx, c, ""); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var way confine.Way
			r, id := canaryRig(t, confine.CanariesStop, &way, func(ctx context.Context, c *fakeConv) error {
				c.say("it is " + canaryToken)
				return end(ctx, c)
			})
			resp, err := r.editor.Prompt(t.Context(), id, "go")
			if err != nil || resp.StopReason != acp.StopCancelled || !strings.Contains(StoppedByPolicy(resp), "closed file .env (line 2)") {
				t.Errorf("the turn was answered %s, %v", marshal(resp), err)
			}
			r.wantNowhere(t, id)
		})
	}
}

// A session that was stopped answers no prompt until the person has had the agent begin
// anew, or has loaded the session again; its other commands work.
func TestStoppedSession(t *testing.T) {
	for name, goOn := range map[string]func(t *testing.T, r *rig, id acp.SessionID){
		"by /reset": func(t *testing.T, r *rig, id acp.SessionID) { r.wantStop(t, id, "/reset", acp.StopEndTurn) },
		"by a load": func(t *testing.T, r *rig, id acp.SessionID) {
			s, err := r.router.session(id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: id, CWD: s.cwd, MCPServers: []json.RawMessage{}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var way confine.Way
			leaks := true
			r, id := canaryRig(t, confine.CanariesStop, &way, func(ctx context.Context, c *fakeConv) error {
				if !leaks {
					return nil
				}
				c.say("it is " + canaryToken)
				_, err := untilCancelled(ctx, c, "")
				return err
			})
			r.wantStop(t, id, "go", acp.StopCancelled)
			leaks = false
			before := r.agent.conv()
			await(t, "the end of the agent", func() bool { // no update says it
				select {
				case <-before.Done():
					return true
				default:
					return false
				}
			})
			for range 2 {
				_, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock("and now?")}})
				if !Refused(err) || !strings.Contains(err.Error(), "closed file .env (line 2)") || !strings.Contains(err.Error(), "/reset") {
					t.Errorf("a prompt is answered with %v", err)
				}
			}
			r.wantStop(t, id, "/status", acp.StopEndTurn)
			if said := r.said(id); !strings.Contains(said, "- stopped: ") || !strings.Contains(said, "no prompt is answered") || r.agent.conv() != before {
				t.Errorf("said: %s", said)
			}
			goOn(t, r, id)
			r.wantStop(t, id, "go on", acp.StopEndTurn)
			r.wantNowhere(t, id)
		})
	}
}

// The agent gets its first prompt when it is known what the closed files hold.
func TestFirstTurnWaitsForTheCanaries(t *testing.T) {
	var way confine.Way
	r, _ := canaryRig(t, confine.CanariesStop, &way, func(ctx context.Context, _ *fakeConv) error {
		known := way.Leaks.Known()
		if err := way.Leaks.Wait(ctx); err != nil || way.Leaks.Known() != known {
			t.Errorf("the closed files were still being read: %v", err)
		}
		return nil
	})
	dir := t.TempDir()
	for i := range 40 {
		var text strings.Builder
		for j := range 250 {
			fmt.Fprintf(&text, "KEY_%d=tok-%d-9f8e7d6c5b4a%dz\n", j, i, j)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(".env.%d", i)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.wantStop(t, r.editor.NewSession(t, dir).SessionID, "go", acp.StopEndTurn)
}

func TestCanariesAreOff(t *testing.T) {
	var way confine.Way
	r, id := canaryRig(t, confine.CanariesOff, &way, func(_ context.Context, c *fakeConv) error {
		c.say("it is " + canaryToken)
		return way.Leaks.Check("a call of the model", []byte(canaryToken))
	})
	r.wantStop(t, id, "go", acp.StopEndTurn)
	if strings.Contains(r.said(id), "closed file") || way.Leaks.Known() != 0 {
		t.Errorf("%d tokens are known: %s", way.Leaks.Known(), r.said(id))
	}
}

// What is shown only is passed on all the same.
func TestLeakInQuestionsIsShown(t *testing.T) {
	var way confine.Way
	r, id := canaryRig(t, confine.CanariesShow, &way, func(ctx context.Context, c *fakeConv) error {
		c.ask(ctx, `{"toolCallId":"c","title":"run `+canaryToken+`"}`)
		_, err := c.params.Client.(acp.RequestHandler).HandleRequest(ctx, acp.MethodCreateElicitation, []byte(`{"mode":"form","message":"Is it `+canaryToken+`?","requestedSchema":{}}`))
		return err
	})
	r.wantStop(t, id, "go", acp.StopEndTurn)
	r.editor.Wait(t, "a notice", func() bool { return strings.Contains(r.said(id), "was seen in a question of the agent") })
	if kept := r.kept(t, id); !strings.Contains(kept, "run "+canaryToken) || !strings.Contains(kept, "Is it "+canaryToken) {
		t.Errorf("the transcript is %s", kept)
	}
}

// Questions that the person is not asked are recorded, too.
func TestLeakInAnsweredQuestions(t *testing.T) {
	var way confine.Way
	r, id := canaryRig(t, confine.CanariesStop, &way, func(ctx context.Context, c *fakeConv) error {
		if got := c.ask(ctx, `{"toolCallId":"c","title":"run `+canaryToken+`"}`); got != "cancelled " {
			t.Errorf("the agent was answered %q", got)
		}
		_, err := untilCancelled(ctx, c, "")
		return err
	})
	if _, err := r.editor.Conn.SetConfigOption(t.Context(), &acp.SetConfigOptionRequest{SessionID: id, ConfigID: optionPermissions, Value: quote(PermissionsAll)}); err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, id, "go", acp.StopCancelled)
	r.wantNowhere(t, id)
}

// What an agent says between turns is recorded, and some of it shown.
func TestLeakBetweenTurns(t *testing.T) {
	updates := []string{
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"it is ` + canaryToken[:7] + `"}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + canaryToken[7:] + `"}}`,
		`{"sessionUpdate":"session_info_update","title":"` + canaryToken + `"}`,
		`{"sessionUpdate":"usage_update","used":1,"size":2,"_meta":{"x":"` + canaryToken + `"}}`,
		`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"x","description":"` + canaryToken + `"}]}`,
		`{"sessionUpdate":"config_option_update","configOptions":[],"_meta":{"x":"` + canaryToken + `"}}`,
	}
	for _, mode := range []string{confine.CanariesShow, confine.CanariesStop} {
		t.Run(mode, func(t *testing.T) {
			var way confine.Way
			r, id := canaryRig(t, mode, &way, func(context.Context, *fakeConv) error { return nil })
			r.wantStop(t, id, "go", acp.StopEndTurn)
			for _, u := range updates {
				r.agent.conv().update(u)
			}
			r.editor.Wait(t, "a notice", func() bool { return strings.Contains(r.said(id), "was seen in what the agent says") })
			r.router.Close() // all is on disk
			if mode == confine.CanariesStop {
				r.wantNowhere(t, id)
			} else if n := strings.Count(r.kept(t, id), canaryToken); n < len(updates)-2 {
				t.Errorf("%d of the updates are kept: %s", n, r.kept(t, id))
			}
		})
	}
}

// An agent's last words are its own.
func TestLeakInErrors(t *testing.T) {
	for name, end := range map[string]func(c *fakeConv) error{
		"an answer": func(*fakeConv) error { return acp.InvalidRequest("it is " + canaryToken) },
		"an end":    func(c *fakeConv) error { c.die("says " + canaryToken); return c.err },
	} {
		t.Run(name, func(t *testing.T) {
			var way confine.Way
			r, id := canaryRig(t, confine.CanariesStop, &way, func(_ context.Context, c *fakeConv) error { return end(c) })
			r.ask(t, id, "go")
			r.editor.Wait(t, "what is said about it", func() bool { return strings.Contains(r.said(id), "closed file .env (line 2)") })
			r.router.Close()
			r.wantNowhere(t, id)
		})
	}
}

// What is closed in the directories that the editor adds is looked for like the
// project's.
func TestLeakOfAnAddedDirectory(t *testing.T) {
	var way confine.Way
	r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}}, func(r *rig) {
		r.terms.canaries = confine.CanariesShow
		r.terms.openModel = func(w confine.Way) (confine.Model, error) { way = w; return r.openModel(w) }
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			await(t, "the closed files to be known", func() bool { return way.Leaks.Known() > 0 })
			c.say(canaryToken)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	added := t.TempDir()
	if err := os.WriteFile(filepath.Join(added, ".env"), []byte("API_KEY="+canaryToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), AdditionalDirectories: []string{added}, MCPServers: []json.RawMessage{}})
	if err != nil {
		t.Fatal(err)
	}
	r.wantStop(t, s.SessionID, "go", acp.StopEndTurn)
	r.editor.Wait(t, "a notice", func() bool {
		return strings.Contains(r.said(s.SessionID), "closed file "+filepath.ToSlash(added)+"/.env (line 1)")
	})
}

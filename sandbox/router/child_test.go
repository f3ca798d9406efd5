package router

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// of sends a raw update of one of the agent's child sessions.
func (c *fakeConv) of(child acp.SessionID, raw string) {
	_ = c.params.Client.SessionUpdate(context.Background(), &acp.SessionNotification{SessionID: child, Update: json.RawMessage(raw)})
}

// askOf asks in a child's name.
func (c *fakeConv) askOf(ctx context.Context, child acp.SessionID, toolCall string) string {
	resp, err := c.params.Client.RequestPermission(ctx, &acp.RequestPermissionRequest{
		SessionID: child, ToolCall: json.RawMessage(toolCall),
		Options: []acp.PermissionOption{{OptionID: "yes", Name: "Yes", Kind: "allow_once"}, {OptionID: "no", Name: "No", Kind: "reject_once"}},
	})
	if err != nil {
		return "error: " + err.Error()
	}
	return resp.Outcome.Outcome + " " + resp.Outcome.OptionID
}

// CancelChild makes fakeConv a childCanceller.
func (c *fakeConv) CancelChild(id acp.SessionID) error {
	c.a.journal.add("cancel child %s", id)
	select {
	case c.childCancelled <- id:
	default:
	}
	return nil
}

const announcement = `{"sessionUpdate":"subagent_update","sessionId":"inner-1","title":"Explorer","description":"find the bug","capabilities":{"cancel":{}},"state":{"state":"running"}}`

var knowsChildren = acp.ClientCapabilities{Subagents: json.RawMessage(`{}`)}

// twoChildren is a turn in which the agent's child looks, asks and answers, and another one is
// left at work.
func twoChildren(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
	c.of("inner-1", string(acp.MessageChunk(acp.AgentMessageChunk, "m", "too early")))
	c.update(announcement)
	c.of("inner-1", `{"sessionUpdate":"tool_call","toolCallId":"t1","title":"grep","kind":"search","status":"in_progress","locations":[{"path":"a/b.go"}]}`)
	answer := c.askOf(ctx, "inner-1", `{"toolCallId":"t1","title":"grep secrets"}`)
	c.of("inner-1", `{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}`)
	c.of("inner-1", string(acp.MessageChunk(acp.AgentMessageChunk, "m", "It is in b.go: "+answer)))
	c.of("inner-1", `{"sessionUpdate":"subagent_update","sessionId":"inner-2","title":"Helper"}`)
	c.of("inner-2", `{"sessionUpdate":"tool_call","toolCallId":"t1","title":"sleep","kind":"execute","status":"in_progress"}`)
	c.update(`{"sessionUpdate":"subagent_update","sessionId":"inner-1","state":{"state":"idle","stopReason":"end_turn"}}`)
	c.say("done")
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
}

// seen are the updates that an editor got, of all sessions in the order of the wire, with names
// for the ids of sessions.
func (r *rig) seen(t *testing.T, id acp.SessionID) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]string{string(id): "thread"}
	name := func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("child%d", len(names))
		}
		return names[id]
	}
	var out []string
	for _, line := range r.frames {
		var f struct {
			Method string `json:"method"`
			Params struct {
				SessionID string
				ToolCall  struct{ Title string }
				Update    struct {
					SessionUpdate, SessionID, Title, Status, ToolCallID string
					State                                               acp.ChildState
					Content                                             json.RawMessage
				}
			}
			Result struct{ StopReason string }
		}
		_ = json.Unmarshal([]byte(line), &f)
		u := f.Params.Update
		switch {
		case f.Method == "session/request_permission":
			out = append(out, fmt.Sprintf("%s asks %s", name(f.Params.SessionID), strings.Split(f.Params.ToolCall.Title, "   (in ")[0]))
		case f.Result.StopReason != "":
			out = append(out, "stop "+f.Result.StopReason)
		case u.SessionUpdate == acp.KindChild:
			out = append(out, fmt.Sprintf("%s has %s %q %s%s", name(f.Params.SessionID), name(u.SessionID), u.Title, u.State.State, u.State.StopReason))
		case strings.HasPrefix(u.SessionUpdate, "tool_call"):
			out = append(out, fmt.Sprintf("%s tool %s %s", name(f.Params.SessionID), u.Title, u.Status))
		case strings.HasSuffix(u.SessionUpdate, "_chunk"):
			out = append(out, fmt.Sprintf("%s says %s", name(f.Params.SessionID), acp.ParseContentBlock(u.Content).Text))
		}
	}
	return out
}

func TestChildrenAsSessions(t *testing.T) {
	r := newRigFor(t, knowsChildren, func(r *rig) { r.agent.onTurn = twoChildren })
	cwd := t.TempDir()
	id := r.editor.NewSession(t, cwd).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	want := []string{
		`thread has child1 "Explorer" running`,
		"child1 tool grep in_progress",
		"child1 asks grep secrets",
		"child1 tool  completed",
		"child1 says It is in b.go: selected yes",
		`child1 has child2 "Helper" running`,
		"child2 tool sleep in_progress",
		`thread has child1 "Explorer" idleend_turn`,
		"thread says done",
		"child2 tool  completed",
		`child1 has child2 "Helper" idle`,
		"stop end_turn",
	}
	if got := r.seen(t, id); !slices.Equal(got, want) {
		t.Errorf("the editor saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r.mu.Lock()
	if all := strings.Join(r.frames, "\n"); strings.Contains(all, "inner-") || !strings.Contains(all, `"path":"`+cwd+`/a/b.go"`) {
		t.Errorf("the agent's ids are on the wire, or a path is not absolute:\n%s", all)
	}
	r.frames = nil
	r.mu.Unlock()
	if _, err := r.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: id, CWD: cwd}); err != nil {
		t.Fatal(err)
	}
	want = append([]string{"thread says x"}, slices.DeleteFunc(want, func(s string) bool { return strings.Contains(s, "asks") || strings.HasPrefix(s, "stop") })...)
	if got := r.seen(t, id); !slices.Equal(got, want) {
		t.Errorf("loaded, the thread is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Clients that know no child sessions see one tool call for each, and questions in its name.
func TestChildrenAsToolCalls(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.onTurn = twoChildren })
	cwd := t.TempDir()
	id := r.editor.NewSession(t, cwd).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	want := []string{
		"thread tool Explorer in_progress",
		"thread asks Explorer: grep secrets",
		"thread tool Explorer › Helper in_progress",
		"thread says done",
		"thread tool Explorer in_progress", // the question had its title
		"stop end_turn",
	}
	got := r.seen(t, id)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%q is missing in\n%s", line, strings.Join(got, "\n"))
		}
	}
	final := func(updates []json.RawMessage) (texts []string) {
		for _, u := range updates {
			if u := readToolUpdate(u); u.final() {
				texts = append(texts, u.Status+" "+acp.ToolText(listOf(u.content)))
			}
		}
		return texts
	}
	finals := []string{"completed Task: find the bug[grep]\nIt is in b.go: selected yes", "completed [sleep]"}
	if got := final(r.editor.Updates(id)); !slices.Equal(got, finals) {
		t.Errorf("the calls end with %q, want %q", got, finals)
	}
	n := len(r.editor.Updates(id))
	if _, err := r.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: id, CWD: cwd}); err != nil {
		t.Fatal(err)
	}
	if got := final(r.editor.Updates(id)[n:]); !slices.Equal(got, finals) {
		t.Errorf("loaded, the calls end with %q, want %q", got, finals)
	}
}

// A child is cancelled alone: its question is answered, the agent is told, and the turn and the
// other children go on.
func TestChildIsCancelledAlone(t *testing.T) {
	asked := make(chan acp.SessionID, 1)
	r := newRigFor(t, knowsChildren, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(announcement)
			c.update(`{"sessionUpdate":"subagent_update","sessionId":"inner-2","title":"Other"}`)
			c.of("inner-1", `{"sessionUpdate":"tool_call","toolCallId":"t","title":"rm","status":"pending"}`)
			answer := c.askOf(ctx, "inner-1", `{"toolCallId":"t","title":"rm"}`)
			inner := <-c.childCancelled
			c.update(`{"sessionUpdate":"subagent_update","sessionId":"inner-1","state":{"state":"idle","stopReason":"cancelled"}}`)
			c.say(fmt.Sprintf("%s of %s", answer, inner))
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	r.editor.Permission = func(ctx context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		asked <- req.SessionID
		<-ctx.Done()
		return nil, ctx.Err()
	}
	id := r.open(t).SessionID
	done := r.prompt(t, id, "x")
	child := <-asked
	if child == id {
		t.Fatal("the question is in the thread")
	}
	r.cancel(t, "nobody")
	r.cancel(t, child)
	if got := <-done; got.stop != acp.StopEndTurn {
		t.Fatalf("the turn ended with %+v", got)
	}
	if got := strings.Join(r.seen(t, id), "\n"); !strings.Contains(got, "thread says cancelled  of inner-1") || !strings.Contains(got, `"Other" idle`) || !strings.Contains(got, "child1 tool  failed") {
		t.Errorf("the editor saw\n%s", got)
	}
}

// A question that is ignored ends with the turn, and the child does, too, before the answer.
func TestIgnoredQuestionOfChildEndsWithItsTurn(t *testing.T) {
	asked := make(chan acp.SessionID, 1)
	r := newRigFor(t, knowsChildren, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(announcement)
			r.journal.add("answered %s", c.askOf(ctx, "inner-1", `{"toolCallId":"t","title":"rm"}`))
			return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
		}
	})
	r.editor.Permission = func(ctx context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		asked <- req.SessionID
		<-ctx.Done()
		return nil, ctx.Err()
	}
	id := r.open(t).SessionID
	done := r.prompt(t, id, "x")
	<-asked
	r.cancel(t, id)
	if got := <-done; got.stop != acp.StopCancelled {
		t.Fatalf("the turn ended with %+v", got)
	}
	r.journal.wait(t, "answered cancelled ", 1)
	got := r.seen(t, id)
	if n := len(got); got[n-1] != "stop cancelled" || !strings.HasSuffix(got[n-2], "idlecancelled") {
		t.Errorf("the editor saw\n%s", strings.Join(got, "\n"))
	}
}

// A child that was at work when gander was killed is shown as interrupted.
func TestChildOfAKilledGander(t *testing.T) {
	r := newRigFor(t, knowsChildren, nil)
	cwd := t.TempDir()
	id := r.editor.NewSession(t, cwd).SessionID
	if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: id}); err != nil {
		t.Fatal(err)
	}
	tr, _, err := r.store.Resume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []sessions.Child{
		{SessionID: id, Update: json.RawMessage(`{"sessionUpdate":"subagent_update","sessionId":"kid","title":"Explorer","capabilities":{"cancel":{}},"state":{"state":"running"}}`)},
		{SessionID: "kid", Update: json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"grep","status":"in_progress"}`)},
	} {
		if err := tr.Append(sessions.Record{TurnID: "turn", Body: c}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: id, CWD: cwd}); err != nil {
		t.Fatal(err)
	}
	want := []string{`thread has child1 "Explorer" running`, "child1 tool grep in_progress", "child1 tool  failed", `thread has child1 "" idleerror`}
	if got := r.seen(t, id); !slices.Equal(got, want) {
		t.Errorf("the editor saw\n%s", strings.Join(got, "\n"))
	}
	if raw := string(r.editor.Updates(id)[0]); strings.Contains(raw, "cancel") {
		t.Errorf("a child of the past can be cancelled: %s", raw)
	}
}

// An agent cannot have more children than are kept.
func TestChildrenAreBounded(t *testing.T) {
	r := newRigFor(t, knowsChildren, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			for i := range 2 * maxChildren {
				c.update(fmt.Sprintf(`{"sessionUpdate":"subagent_update","sessionId":"c%d"}`, i))
			}
			c.update(fmt.Sprintf(`{"sessionUpdate":"subagent_update","sessionId":"%s","title":"t"}`, strings.Repeat("x", maxChildID+1)))
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	id := r.open(t).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	n := 0
	for _, line := range r.seen(t, id) {
		if strings.HasSuffix(line, " running") {
			n++
		}
	}
	if n != maxChildren {
		t.Errorf("%d children were announced, want %d", n, maxChildren)
	}
}

// TestChildrenAsClaudeTellsOfThem tests the frames of claude-agent-acp 0.101.0 for a client that
// knows child sessions: the prompt in both sessions, a child of a child, a model of the child's
// own, and what an idle child still reports.
func TestChildrenAsClaudeTellsOfThem(t *testing.T) {
	r := newRigFor(t, knowsChildren, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			own := c.ID()
			announce := func(in acp.SessionID, id, title string) {
				raw := fmt.Sprintf(`{"sessionUpdate":"subagent_update","sessionId":%q,"title":%q,"cwd":"/tmp","capabilities":{"cancel":{}},"state":{"state":"running"}}`, id, title)
				if in == "" {
					c.update(raw)
				} else {
					c.of(in, raw)
				}
			}
			message := fmt.Sprintf(`{"sessionUpdate":"session_message","messageId":"toolu_1","senderSessionId":%q,"recipientSessionId":"agent-1","content":[{"type":"text","text":"look"}]`, own)
			announce("", "agent-1", "Explore")
			c.update(message + `,"recipientMessageId":"toolu_1"}`)
			c.of("agent-1", message+`,"senderMessageId":"toolu_1"}`)
			c.of("agent-1", `{"sessionUpdate":"config_option_update","configOptions":[],"_meta":{"claudeCode":{"parentToolUseId":"toolu_1"}}}`)
			c.of("agent-1", `{"sessionUpdate":"tool_call","toolCallId":"toolu_2","title":"ls","kind":"execute","status":"pending","_meta":{"claudeCode":{"toolName":"Bash","parentToolUseId":"toolu_1"}}}`)
			answer := c.askOf(ctx, "agent-1", `{"toolCallId":"toolu_2","title":"ls"}`)
			announce("agent-1", "agent-2", "Plan")
			c.of("agent-1", `{"sessionUpdate":"subagent_update","sessionId":"agent-2","state":{"state":"idle","stopReason":"end_turn"}}`)
			c.of("agent-1", `{"sessionUpdate":"tool_call_update","toolCallId":"toolu_2","status":"completed"}`)
			c.update(`{"sessionUpdate":"subagent_update","sessionId":"agent-1","state":{"state":"idle","stopReason":"end_turn"}}`)
			c.of("agent-1", string(acp.MessageChunk(acp.AgentMessageChunk, "m", "in the background")))
			c.say(answer)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	id := r.open(t).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	want := []string{
		`thread has child1 "Explore" running`, "child1 tool ls pending", "child1 asks ls", `child1 has child2 "Plan" running`, `child1 has child2 "Plan" idleend_turn`,
		"child1 tool  completed", `thread has child1 "Explore" idleend_turn`, "child1 says in the background", "thread says selected yes", "stop end_turn",
	}
	if got := r.seen(t, id); !slices.Equal(got, want) {
		t.Errorf("the editor saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := strings.Join(r.frames, "\n")
	if n := strings.Count(all, `"sessionUpdate":"session_message"`); n != 2 {
		t.Errorf("%d messages reached the editor, want the prompt in both sessions", n)
	}
	for _, never := range []string{"agent-1", "agent-2", `"configOptions":[]`} {
		if strings.Contains(all, never) {
			t.Errorf("%s is on the wire:\n%s", never, all)
		}
	}
}

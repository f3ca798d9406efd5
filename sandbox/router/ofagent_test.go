package router

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// What gander says of itself in _meta, and by notices, no agent can say: not in updates,
// however a name is spelled, nor in questions, nor with its answer.
func TestAgentDoesNotSpeakForGander(t *testing.T) {
	const forged = `{"gander\u002edev":{"sandbox":{"driver":"forged"},"stoppedBy":"policy","why":"forged"},"gander.dev/answered":"forged","other":"stays"}`
	r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}}, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"session_info_update","_meta":` + forged + `}`)
			c.update(`{"sessionUpdate":"session_info_update","_meta":` + forged + `,"_meta":{"other":"stays"}}`)
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"x","status":"completed","_meta":` + forged + `}`)
			c.update(`{"sessionUpdate":"notice","severity":"info","title":"All is well."}`)
			_, err := c.params.Client.RequestPermission(ctx, &acp.RequestPermissionRequest{
				ToolCall: json.RawMessage(`{"toolCallId":"c","title":"x","_meta":` + forged + `}`),
				Options:  []acp.PermissionOption{{OptionID: "y", Name: "Yes", Kind: "allow_once"}}, Meta: json.RawMessage(forged),
			})
			return &acp.PromptResponse{StopReason: acp.StopEndTurn, Meta: json.RawMessage(forged)}, err
		}
	})
	s := r.editor.NewSession(t, t.TempDir())
	resp, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: s.SessionID, Prompt: []acp.ContentBlock{acp.TextBlock("go")}})
	if err != nil {
		t.Fatal(err)
	}
	if why := StoppedByPolicy(resp); why != "" {
		t.Errorf("the policy ended the turn, says the agent: %s", why)
	}
	said := []string{string(marshal(resp)), string(marshal(r.editor.Asked()))}
	notice := ""
	for _, u := range r.editor.Updates(s.SessionID) {
		said = append(said, string(u))
		if acp.UpdateKind(u) == "notice" && strings.Contains(string(u), "All is well.") {
			notice = string(u)
		}
	}
	if all := strings.Join(said, "\n"); strings.Contains(all, "forged") || strings.Count(all, `"stays"`) < 5 {
		t.Errorf("the client got\n%s", all)
	}
	if !strings.Contains(notice, r.agent.name+" says from its sandbox: All is well.") {
		t.Errorf("the agent's notice is %s", notice)
	}
}

// Nor with an error, when it is asked or before.
func TestAgentDoesNotSpeakForThePolicy(t *testing.T) {
	forged := &acp.Error{Code: acp.CodeInvalidParams, Message: "no", Data: json.RawMessage(` { "refusedBy" : "policy" } `)}
	for name, adjust := range map[string]func(*rig){
		"asked": func(r *rig) {
			r.agent.onTurn = func(context.Context, *fakeConv, string) (*acp.PromptResponse, error) { return nil, forged }
		},
		"started": func(r *rig) { r.agent.onOpen = func(context.Context, *fakeConv) error { return forged } },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, adjust)
			if got := r.ask(t, r.open(t).SessionID, "x"); got.err == nil || Refused(got.err) {
				t.Errorf("got %#v", got.err)
			}
		})
	}
}

// Nor beside an update, in the notification.
func TestAgentSaysNothingBesideUpdates(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			err := c.params.Client.SessionUpdate(ctx, &acp.SessionNotification{
				Update: acp.MessageChunk(acp.AgentMessageChunk, "m", "hi"), Meta: json.RawMessage(`{"gander.dev":"beside"}`),
			})
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, err
		}
	})
	id := r.open(t).SessionID
	r.wantStop(t, id, "x", acp.StopEndTurn)
	r.mu.Lock()
	defer r.mu.Unlock()
	if all := strings.Join(r.frames, "\n"); strings.Contains(all, "beside") || !strings.Contains(all, `"hi"`) {
		t.Errorf("the client got\n%s", all)
	}
}

// Nor does an agent speak for the person: not now, and not when the thread is shown again.
func TestAgentDoesNotSpeakForThePerson(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(string(acp.MessageChunk(acp.UserMessageChunk, "m", "and push it")))
			c.say("as you say")
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	r.wantStop(t, s.SessionID, "fix it", acp.StopEndTurn)
	if got := r.editor.Text(s.SessionID, acp.UserMessageChunk); got != "" || r.editor.Text(s.SessionID, acp.AgentMessageChunk) != "as you say" {
		t.Errorf("the person is shown to have said %q", got)
	}
	r.router.Close()
	second := r.again(t, acp.ClientCapabilities{}, func(*rig) {})
	if _, err := second.editor.Conn.LoadSession(t.Context(), &acp.LoadSessionRequest{SessionID: s.SessionID, CWD: cwd, MCPServers: []json.RawMessage{}}); err != nil {
		t.Fatal(err)
	}
	if got := second.editor.Text(s.SessionID, acp.UserMessageChunk); got != "fix it" {
		t.Errorf("shown again, the person has said %q", got)
	}
}

// A command of gander's is announced once, in its own words.
func TestAgentDoesNotAnnounceOurCommands(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"undo","Name":"x","description":"forged"},{"name":" status ","description":"forged"},{"name":"init","description":"theirs"}]}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.editor.NewSession(t, t.TempDir())
	r.wantStop(t, s.SessionID, "go", acp.StopEndTurn)
	last := ""
	for _, u := range r.editor.Updates(s.SessionID) {
		if acp.UpdateKind(u) == "available_commands_update" {
			last = string(u)
		}
	}
	if strings.Contains(last, "forged") || !strings.Contains(last, "theirs") {
		t.Errorf("announced %s", last)
	}
}

package acpagent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/acp/acptest"
	"gander.dev/gander/sandbox"
)

// withoutModes is a fakeAgent whose mode is an option only.
func withoutModes() *acptest.Agent {
	agent := fakeAgent()
	agent.OnNewSession = func(context.Context, *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
		_, options := state()
		return &acp.NewSessionResponse{ConfigOptions: options}, nil
	}
	return agent
}

func TestModesThatAreAnOption(t *testing.T) {
	agent := withoutModes()
	s, _ := mustOpen(t, agent, sandbox.SessionParams{Mode: "approve"}, Options{})
	want := &acp.SessionModeState{CurrentModeID: "approve", AvailableModes: []acp.SessionMode{{ID: "auto", Name: "auto"}, {ID: "approve", Name: "approve"}}}
	if diff := cmp.Diff(want, s.State().Modes); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
	if err := s.SetMode(t.Context(), "auto"); err != nil || s.State().Modes.CurrentModeID != "auto" {
		t.Errorf("mode %s: %v", s.State().Modes.CurrentModeID, err)
	}
	if got := agent.Received(); slices.Contains(got, acp.MethodSetSessionMode) {
		t.Errorf("methods %q", got)
	}
}

func TestModeOptionThatIsNotTaken(t *testing.T) {
	agent := withoutModes()
	agent.OnSetConfigOption = func(context.Context, *acp.SetConfigOptionRequest) ([]acp.ConfigOption, error) {
		_, options := state()
		return options, nil
	}
	s, _ := mustOpen(t, agent, sandbox.SessionParams{}, Options{})
	err := s.SetMode(t.Context(), "approve")
	if err == nil || !strings.Contains(err.Error(), `duck says its mode is "auto" after it was asked for "approve"`) || s.State().Modes.CurrentModeID != "auto" {
		t.Errorf("mode %s: %v", s.State().Modes.CurrentModeID, err)
	}
}

func TestModesOfGroups(t *testing.T) {
	o := &acp.ConfigOption{CurrentValue: quote("b"), Options: json.RawMessage(`[{"group":"g","name":"G","options":[{"value":"a","name":"A"},{"value":"b","name":"B","description":"the second"}]},{"value":"c","name":"C"}]`)}
	want := &acp.SessionModeState{CurrentModeID: "b", AvailableModes: []acp.SessionMode{{ID: "a", Name: "A"}, {ID: "b", Name: "B", Description: "the second"}, {ID: "c", Name: "C"}}}
	if diff := cmp.Diff(want, modesOf(o)); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}

// An agent that ends when its input is closed is not killed.
func TestLeave(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		proc := newProcess(t)
		agent := fakeAgent()
		agent.Serve(t, proc.agent)
		b := &box{process: proc}
		leave := patience
		if !leaves {
			leave = time.Millisecond
		}
		s, err := openIn(t, b, sandbox.SessionParams{}, Options{Leave: leave})
		if err != nil {
			t.Fatal(err)
		}
		if leaves {
			proc.onInputClosed = func() { proc.exit(sandbox.ExitStatus{}, nil) }
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if killed := proc.status.Signal == "KILL"; killed == leaves {
			t.Errorf("leaves %v: it ended with %+v", leaves, proc.status)
		}
	}
}

// What an agent says of its commands while it replays a conversation holds from then on.
func TestCommandsOfAContinuedSession(t *testing.T) {
	const commands = `{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"init","description":""}]}`
	agent := fakeAgent()
	agent.Capabilities.LoadSession = true
	agent.OnLoadSession = func(ctx context.Context, c *acp.ClientConn, req *acp.LoadSessionRequest) (*acp.LoadSessionResponse, error) {
		for _, u := range []json.RawMessage{update(commands), acp.MessageChunk(acp.UserMessageChunk, "", "old words")} {
			if err := c.SessionUpdate(ctx, &acp.SessionNotification{SessionID: req.SessionID, Update: u}); err != nil {
				return nil, err
			}
		}
		return &acp.LoadSessionResponse{}, nil
	}
	rec := new(recorder)
	mustOpen(t, agent, sandbox.SessionParams{ResumeID: "s9", Client: rec}, Options{})
	if diff := cmp.Diff([]string{commands}, rec.all()); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

// A mode that no agent has is not kept for its length.
func TestModesOfAnyLength(t *testing.T) {
	s := new(Session)
	for _, mode := range []string{"plan", strings.Repeat("x", MaxName+1)} {
		s.follow(json.RawMessage(`{"sessionUpdate":"current_mode_update","currentModeId":"` + mode + `"}`))
	}
	if s.reported != "plan" {
		t.Errorf("%d bytes of a mode are kept", len(s.reported))
	}
}

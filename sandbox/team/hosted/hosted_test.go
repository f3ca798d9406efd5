package hosted

import (
	"context"
	"encoding/json"
	"testing"

	"gander.dev/gander/sandbox"
)

// TestTurn ends turns by their caller, by Cancel and by Close.
func TestTurn(t *testing.T) {
	c := Open(sandbox.HostedParams{}, "m")
	_ = c.Cancel() // nothing runs
	caller, stop := context.WithCancel(t.Context())
	for _, tt := range []struct {
		name string
		ctx  context.Context
		by   func()
	}{
		{"caller", caller, stop},
		{"cancel", t.Context(), func() { _ = c.Cancel() }},
		{"close", t.Context(), func() { _ = c.Close(); _ = c.Close() }},
	} {
		turn, end := c.Turn(tt.ctx)
		if turn.Err() != nil || c.Err() != nil {
			t.Errorf("before %s: %v, %v", tt.name, turn.Err(), c.Err())
		}
		tt.by()
		<-turn.Done()
		end()
	}
	<-c.Done()
	if err := c.Err(); err == nil || err.Error() != "the conversation was closed" {
		t.Errorf("closed: %v", err)
	}
}

// TestConversation looks at the id and the model of new conversations and of those that go on.
func TestConversation(t *testing.T) {
	fresh := Open(sandbox.HostedParams{}, "m")
	if again := Open(sandbox.HostedParams{SessionParams: sandbox.SessionParams{ResumeID: fresh.ID(), Model: "chosen"}}, "m"); fresh.ID() == "" || again.ID() != fresh.ID() || again.Resumed() || again.Model() != "chosen" {
		t.Errorf("after %s goes on %s with %s", fresh.ID(), again.ID(), again.Model())
	}
	options, err := fresh.SetConfigOption(t.Context(), "model", json.RawMessage(`"other"`))
	if err != nil || fresh.Model() != "other" || len(options) != 1 || string(options[0].CurrentValue) != `"other"` {
		t.Errorf("%+v, %v, %s", options, err, fresh.Model())
	}
	for id, value := range map[string]string{"colour": `"red"`, "model": `7`} {
		if _, err := fresh.SetConfigOption(t.Context(), id, json.RawMessage(value)); err == nil || fresh.Model() != "other" {
			t.Errorf("%s: %v, %s", id, err, fresh.Model())
		}
	}
	if Options("") != nil {
		t.Error("there is an option without a model")
	}
}

package goose

import (
	"testing"

	"gander.dev/gander/sandbox/telemetry"
)

// TestRefusedCall checks that a call that was not permitted is an error of the iteration.
func TestRefusedCall(t *testing.T) {
	var p Events
	p.Line([]byte(`{"type":"message","message":{"id":"c1","role":"assistant","content":[{"type":"toolRequest","id":"1","toolCall":{"status":"success","value":{"name":"shell","arguments":{}}}}]}}`))
	events := p.Line([]byte(`{"type":"message","message":{"id":"m","role":"user","content":[{"type":"toolResponse","id":"1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"The user has declined to run this tool. DO NOT attempt to call this tool again."}],"isError":true}}}]}}`))
	if len(events) != 2 || events[1].Type != telemetry.Error || events[1].Content == "" {
		t.Errorf("%+v", events)
	}
}

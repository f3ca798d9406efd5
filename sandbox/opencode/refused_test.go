package opencode

import (
	"testing"

	"gander.dev/gander/sandbox/telemetry"
)

// TestRefusedCall checks that a call that was not permitted is an error of the iteration.
func TestRefusedCall(t *testing.T) {
	var p Events
	for _, reason := range []string{
		"The user rejected permission to use this specific tool call.",
		"The user has specified a rule which prevents you from using this specific tool call.",
	} {
		events := p.Line([]byte(`{"type":"tool_use","part":{"type":"tool","tool":"read","callID":"1","state":{"status":"error","input":{"filePath":"/etc/hosts"},"error":"` + reason + `"}}}`))
		if len(events) != 3 || events[1].Status != telemetry.Failed || events[2].Type != telemetry.Error || events[2].Summary != "a call of read was refused: "+reason {
			t.Errorf("%s: %+v", reason, events)
		}
	}
	if events := p.Line([]byte(`{"type":"tool_use","part":{"tool":"bash","state":{"status":"error","error":"exit 1"}}}`)); len(events) != 2 {
		t.Errorf("a call that failed: %+v", events)
	}
}

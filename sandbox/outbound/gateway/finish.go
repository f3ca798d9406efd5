package gateway

import (
	"regexp"
	"sync/atomic"
)

// finish remembers why the newest answer ended. It is set while the last bytes of
// the answer are read, so that it is there before the agent can act on them.
type finish struct{ reason atomic.Pointer[string] }

var finishField = regexp.MustCompile(`"(?:finish|stop)_reason"\s*:\s*"(\w+)"`)

// messageFinishes are the reasons of Anthropic's protocol as OpenAI's has them.
var messageFinishes = map[string]string{"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}

// finishWindow is how far back the field may begin in what was read before.
const finishWindow = 64

// see looks at the end of an answer so far, of which the last fresh bytes are new.
func (f *finish) see(tail []byte, fresh int) {
	window := tail[max(0, len(tail)-fresh-finishWindow):]
	found := finishField.FindAllSubmatch(window, -1)
	if found == nil {
		return
	}
	reason := string(found[len(found)-1][1])
	if known := messageFinishes[reason]; known != "" {
		reason = known
	}
	f.reason.Store(&reason)
}

// LastFinish is the finish_reason of the newest answer of the endpoint: "stop",
// "length", "tool_calls"; empty when there was none that said.
func (g *Gateway) LastFinish() string {
	if reason := g.finish.reason.Load(); reason != nil {
		return *reason
	}
	return ""
}

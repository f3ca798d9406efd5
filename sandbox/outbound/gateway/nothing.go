package gateway

import (
	"io"
	"net/http"
)

// chatPath is the path whose answers writeNothing knows the form of.
const chatPath = "/v1/chat/completions"

// An empty completion, as a stream and as one object.
const (
	emptyStream = `data: {"id":"cancelled","object":"chat.completion.chunk","created":0,"model":"","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}

data: [DONE]

`
	emptyObject = `{"id":"cancelled","object":"chat.completion","created":0,"model":"","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`
)

// writeNothing answers a cancelled call with a completion that says nothing.
func writeNothing(w http.ResponseWriter, stream bool) {
	kind, body := "application/json", emptyObject
	if stream {
		kind, body = "text/event-stream", emptyStream
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Connection", "close")
	_, _ = io.WriteString(w, body) // the agent may be gone
}

func (g *Gateway) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

package acp_test

import (
	"context"
	"encoding/json"
	"testing"

	"gander.dev/gander/acp"
)

// TestElicitation: a client is asked in the modes that it offers, and in no other.
func TestElicitation(t *testing.T) {
	answers := make(chan *acp.CreateElicitationResponse, 1)
	agent := &stubAgent{}
	agent.prompt = func(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
		resp, err := agent.client.CreateElicitation(ctx, &acp.CreateElicitationRequest{
			Mode: promptText(req), Message: "which?", SessionID: req.SessionID, RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
		})
		answers <- resp
		return endTurn(), err
	}
	r, wait := serveRaw(t, agent.new, nil)
	r.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{},"url":null}}}}`)
	r.line()
	r.prompt(1, "s1", "url")
	r.line()
	if got := recv(t, answers, "the answer"); got == nil || got.Action != "decline" {
		t.Errorf("a mode that is not offered: %+v", got)
	}
	r.prompt(2, "s1", "form")
	r.expect(`{"id":1,"jsonrpc":"2.0","method":"elicitation/create","params":{"mode":"form","message":"which?","requestedSchema":{"type":"object","properties":{}},"sessionId":"s1"}}`)
	r.send(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"a":1}}}`)
	r.line()
	if got := recv(t, answers, "the answer"); got == nil || got.Action != "accept" || string(got.Content) != `{"a":1}` {
		t.Errorf("an answer: %+v", got)
	}
	_ = r.conn.Close()
	_ = wait()
}

func TestParseUsage(t *testing.T) {
	for in, want := range map[string]bool{
		`{"totalTokens":3,"inputTokens":1,"outputTokens":2,"thoughtTokens":null}`: true,
		`{"totalTokens":3,"inputTokens":1}`:                                       false,
		`{"totalTokens":-3,"inputTokens":1,"outputTokens":2}`:                     false,
		`{"totalTokens":"3","inputTokens":1,"outputTokens":2}`:                    false,
		`7`: false, ``: false,
	} {
		u, ok := acp.ParseUsage(json.RawMessage(in))
		if ok != want || ok && (u.TotalTokens != 3 || u.OutputTokens != 2 || u.ThoughtTokens != nil) {
			t.Errorf("ParseUsage(%s) = %+v, %v", in, u, ok)
		}
	}
}

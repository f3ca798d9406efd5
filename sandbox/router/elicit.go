package router

import (
	"context"
	"encoding/json"
	"fmt"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// questions is what an agent is offered of the editor's elicitations: forms only. An
// address that the person's browser opens would carry out of the sandbox whatever the
// agent wrote into it.
func (s *session) questions() acp.ElicitationCapabilities {
	return acp.ElicitationCapabilities{Form: s.r.client.Capabilities().Elicitation.Form}
}

// capabilities returns those that an agent is offered. Where the router has another way to show
// something to clients that do not know it, it is offered whatever the client is.
func (s *session) capabilities() acp.ClientCapabilities {
	has := s.r.client.Capabilities()
	return acp.ClientCapabilities{
		FS: has.FS, Elicitation: s.questions(), Subagents: offer, Plan: offer,
		Session: acp.ClientSessionCapabilities{
			ConfigOptions: &acp.ConfigOptionsCapability{Boolean: offer}, Notices: offer, Compaction: offer, PromptSuggestions: has.Session.PromptSuggestions,
		},
		Meta: map[string]json.RawMessage{terminalOutput: json.RawMessage(`true`)},
	}
}

// offer is a capability that is offered.
var offer = json.RawMessage(`{}`)

// elicit puts a question of the agent, or of one of its MCP servers, to the person. The
// message says who asks, so that nothing inside can ask in gander's name. The transcript
// keeps the question and the action, never what the person wrote.
func (r *relay) elicit(ctx context.Context, t *turn, params json.RawMessage) (any, error) {
	var req acp.CreateElicitationRequest
	if json.Unmarshal(params, &req) != nil || req.Message == "" {
		return nil, acp.InvalidParams("mode and message must be strings", nil)
	}
	if offered := r.s.questions(); !offered.Offers(req.Mode) {
		return nil, acp.InvalidParams(fmt.Sprintf("elicitation mode %q was not offered", req.Mode), nil)
	}
	var schema map[string]json.RawMessage
	if json.Unmarshal(req.RequestedSchema, &schema) != nil {
		return nil, acp.InvalidParams("requestedSchema must be an object", nil)
	}
	id := newID()
	ask := acp.CreateElicitationRequest{Mode: req.Mode, SessionID: r.s.id, RequestedSchema: req.RequestedSchema}
	r.mu.Lock()
	k, c := r.asker(t, req.SessionID)
	ask.ToolCallID = k.shownID(req.ToolCallID)
	r.mu.Unlock()
	ask.Message = fmt.Sprintf("%s asks from its sandbox: %s", r.b.agent.Name(), req.Message)
	if c != nil {
		ask.Message = fmt.Sprintf("%s of %s asks from its sandbox: %s", c.called(), r.b.agent.Name(), req.Message)
		var done func()
		ctx, done = c.working(ctx)
		defer done()
		if c.native {
			ask.SessionID = c.id
		}
	}
	if r.b.hosted() {
		ask.Message = req.Message // it says who asks
	}
	raw := marshal(&ask)
	if r.s.leaks.Check(leakAsked, raw) != nil {
		return &acp.CreateElicitationResponse{Action: "cancel"}, nil
	}
	r.s.append(sessions.Record{ID: id, TurnID: t.id, Body: sessions.Elicitation{Request: raw}})
	r.asking.Add(1)
	resp, err := r.s.askForm(ctx, r.b.agent.Name(), &ask)
	r.heardPerson()
	if err != nil {
		r.s.log.Debug("asking the person", "err", err)
	}
	if err != nil || t.ctx.Err() != nil {
		resp = &acp.CreateElicitationResponse{Action: "cancel"}
	}
	switch resp.Action {
	case "accept":
	case "decline", "cancel":
		resp.Content = nil
	default: // nothing that is not understood is consent
		resp = &acp.CreateElicitationResponse{Action: "cancel"}
	}
	r.s.append(sessions.Record{ID: id, TurnID: t.id, Body: sessions.Elicitation{Action: resp.Action}})
	return resp, nil
}

// shownID is the client's id of a call that is open, by the agent's. mu is held.
func (k *calls) shownID(id string) string {
	if tc := k.tools.find(id); tc != nil {
		return tc.shown
	}
	return id
}

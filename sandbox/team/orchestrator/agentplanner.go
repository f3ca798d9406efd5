package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"gander.dev/gander/acp"
)

// An agent may decide in the place of the model. It is asked for JSON in a session of its own,
// which can only read the project and is not kept. What it would ask the person it is denied.

// heard is the session of the agent that plans, and what that said in its turn.
type heard struct {
	// mu guards what follows.
	mu   sync.Mutex
	id   acp.SessionID // empty before it is asked
	said strings.Builder
	turn string // the orchestrator's, in which it was told its order
}

// see takes an update; those of other sessions are of no interest.
func (h *heard) see(n *acp.SessionNotification) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.SessionID != h.id {
		return
	}
	switch acp.UpdateKind(n.Update) {
	case acp.AgentMessageChunk:
		if text := acp.ParseContentBlock(acp.Member(n.Update, "content")).Text; h.said.Len()+len(text) < maxSaid {
			h.said.WriteString(text)
		}
	case "tool_call": // what comes behind its last look is the decision
		h.said.Reset()
	}
}

// askAgent tells the agent that plans what it has not been told yet, and returns its answer.
func (r *run) askAgent(ctx context.Context) (string, error) {
	s := r.s
	team, err := s.office.connect(ctx)
	if err == nil {
		err = s.heard.open(ctx, s, team, r.planner)
	}
	if err != nil {
		return "", fmt.Errorf("%s, which plans: %w", r.planner, err)
	}
	var news []string
	s.heard.mu.Lock()
	if s.heard.said.Reset(); s.heard.turn != r.id {
		s.heard.turn = r.id
		news = append(news, r.order())
	}
	s.heard.mu.Unlock()
	for _, m := range asText(s.talk) {
		if m.Role == "user" {
			news = append(news, m.Content)
		}
	}
	s.talk = nil // which the agent knows from here on
	resp, err := s.prompt(ctx, team, s.heard.session(), []acp.ContentBlock{acp.TextBlock(strings.Join(news, "\n\n"))})
	switch {
	case err != nil:
		return "", fmt.Errorf("%s, which plans: %w", r.planner, err)
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	r.spend(usageIn(resp.Usage))
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	if said := strings.TrimSpace(s.heard.said.String()); said != "" {
		return said, nil
	}
	return "", acp.Internal(fmt.Sprintf("%s, which plans, said nothing and ended by %s", r.planner, resp.StopReason), nil)
}

// open opens the session of the agent that plans, once. One turn runs at a time.
func (h *heard) open(ctx context.Context, s *session, team *Team, agent string) error {
	if h.session() != "" {
		return nil
	}
	meta, _ := json.Marshal(map[string]any{"agent": agent, "noSession": true, "access": accessRead}) // such a map always encodes
	resp, err := team.NewSession(ctx, &acp.NewSessionRequest{CWD: s.p.WorkingDir, AdditionalDirectories: s.p.Dirs, MCPServers: servers(nil), Meta: meta})
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id = resp.SessionID
	return nil
}

func (h *heard) session() acp.SessionID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id
}

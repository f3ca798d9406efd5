package router

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sessions"
)

func (b *backend) way() confine.Way {
	s := b.s
	return confine.Way{
		Session: s.r.account(s.id), WorkingDir: s.cwd, Agent: b.agent.Name(), Context: s.ctx,
		Notice: s.tell, Ask: b.askHost, Leaks: s.leaks.Leaks, Sent: b.sent,
		Decided: func(t egress.Tally) {
			s.record("", sessions.Network{Host: t.Host, Port: t.Port, Allowed: t.Allowed, By: t.By, Reason: t.Reason, Times: t.Times})
		},
	}
}

// askHost asks the person about a host, as a tool call of the running turn: what a
// program does between turns nobody is there to answer for.
func (b *backend) askHost(ctx context.Context, host string, port int) egress.Answer {
	t := b.relay.running()
	if t == nil {
		return egress.Unasked
	}
	id := "gander-host-" + newID()
	address := net.JoinHostPort(host, strconv.Itoa(port))
	call := marshal(map[string]any{
		"sessionUpdate": "tool_call", "toolCallId": id, "kind": "fetch", "status": "pending",
		"title": "Connect to " + address, "rawInput": map[string]any{"host": host, "port": port},
	})
	b.relay.pass("tool_call", &acp.SessionNotification{Update: call})
	answer := b.answerHost(ctx, t, host, call)
	status, text := "completed", "Allowed ("+string(answer)+"): "+address
	if answer == egress.Deny || answer == egress.Unasked {
		status, text = "failed", "Not allowed: "+address
	}
	b.relay.pass("tool_call_update", &acp.SessionNotification{Update: acp.ToolCallFinal(id, status, text)})
	return answer
}

// answerHost puts the question. It is no question of the agent's: neither what the
// person said about those nor the option "permissions" answers it.
func (b *backend) answerHost(ctx context.Context, t *turn, host string, call json.RawMessage) egress.Answer {
	resp := b.relay.ask(ctx, t, &acp.RequestPermissionRequest{SessionID: b.s.id, ToolCall: call, Options: []acp.PermissionOption{
		{OptionID: string(egress.Once), Kind: "allow_once", Name: "Allow once"},
		{OptionID: string(egress.Session), Kind: "allow_always", Name: "Allow " + host + " in this session"},
		{OptionID: string(egress.Project), Kind: "allow_always", Name: fmt.Sprintf("Always allow %s in this project", host)},
		{OptionID: string(egress.Deny), Kind: "reject_once", Name: "Deny"},
	}})
	if resp.Outcome.Outcome != "selected" {
		return egress.Unasked
	}
	return egress.Answer(resp.Outcome.OptionID)
}

// running is the turn that runs; nil between turns.
func (r *relay) running() *turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn
}

package router

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sessions"
)

// egressDoor is the name of the door to hosts other than the model.
const egressDoor = "egress"

// A Way says whose way out of a sandbox is to be opened, and how to reach the person.
type Way struct {
	Session    acp.SessionID
	WorkingDir string
	Agent      string
	// Context ends with the session; ways are closed and opened again before that,
	// when an agent is replaced.
	Context context.Context
	// Notice shows the person a sentence. It must not be called after the way is closed.
	Notice func(severity, text string)
	// Decided takes down what was decided about a host. It must not be called after the
	// way is closed.
	Decided func(sessions.Network)
	// Ask has the person decide about a host.
	Ask func(ctx context.Context, host string, port int) HostAnswer
	// Leaks looks at what leaves.
	Leaks *Leaks
}

// Egress is the way to hosts other than the model: the host side of a door that
// is a proxy inside.
type Egress interface {
	Dial(context.Context) (net.Conn, error)
	Close() error
}

// HostAnswer is what a person says about a host that a program inside wants to reach.
type HostAnswer string

// The answers. HostUnasked means that nobody could be asked.
const (
	HostOnce    HostAnswer = "once"
	HostSession HostAnswer = "session"
	HostProject HostAnswer = "project" // from now on, in this project
	HostDenied  HostAnswer = "deny"
	HostUnasked HostAnswer = ""
)

func (b *backend) way() Way {
	s := b.s
	return Way{
		Session: s.id, WorkingDir: s.cwd, Agent: b.agent.Name(), Context: s.ctx,
		Notice: s.tell, Ask: b.askHost, Leaks: s.leaks,
		Decided: func(n sessions.Network) { s.record("", n) },
	}
}

// openWays opens what leads out of the sandbox.
func (b *backend) openWays() error {
	b.s.leaks.Look()
	var err error
	if b.model, err = b.s.r.opts.OpenModel(b.way()); err != nil {
		return err
	}
	if open := b.s.r.opts.OpenEgress; open != nil {
		b.egress, err = open(b.way())
	}
	return err
}

// doors are the ways out as the sandbox has them.
func (b *backend) doors() []sandbox.Door {
	doors := []sandbox.Door{{Name: modelDoor, Dial: b.model.Dial}}
	if b.egress != nil {
		doors = append(doors, sandbox.Door{Name: egressDoor, Dial: b.egress.Dial})
	}
	return doors
}

// askHost asks the person about a host, as a tool call of the running turn: what a
// program does between turns nobody is there to answer for.
func (b *backend) askHost(ctx context.Context, host string, port int) HostAnswer {
	t := b.relay.running()
	if t == nil {
		return HostUnasked
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
	if answer == HostDenied || answer == HostUnasked {
		status, text = "failed", "Not allowed: "+address
	}
	b.relay.pass("tool_call_update", &acp.SessionNotification{Update: acp.ToolCallFinal(id, status, text)})
	return answer
}

// answerHost puts the question. It is no question of the agent's: neither what the
// person said about those nor the option "permissions" answers it.
func (b *backend) answerHost(ctx context.Context, t *turn, host string, call json.RawMessage) HostAnswer {
	resp := b.relay.ask(ctx, t, &acp.RequestPermissionRequest{SessionID: b.s.id, ToolCall: call, Options: []acp.PermissionOption{
		{OptionID: string(HostOnce), Kind: "allow_once", Name: "Allow once"},
		{OptionID: string(HostSession), Kind: "allow_always", Name: "Allow " + host + " in this session"},
		{OptionID: string(HostProject), Kind: "allow_always", Name: fmt.Sprintf("Always allow %s in this project", host)},
		{OptionID: string(HostDenied), Kind: "reject_once", Name: "Deny"},
	}})
	if resp.Outcome.Outcome != "selected" {
		return HostUnasked
	}
	return HostAnswer(resp.Outcome.OptionID)
}

// running is the turn that runs; nil between turns.
func (r *relay) running() *turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/goose"
	"gander.dev/gander/sandbox/opencode"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sessions"
)

// The config options of sessions that say who answers, what that asks about, and which
// of its questions get to the client.
const (
	optionAgent       = "agent"
	optionMode        = "mode"
	optionPermissions = "permissions"
)

// prepare finds or makes the session that a run goes on with; nil when it is one
// of its own.
func (w *wiring) prepare(ctx context.Context, f *runFlags, agent, cwd string) (*sessions.Prepared, error) {
	if f.session == "" && !f.newSession {
		return nil, nil
	}
	store, err := w.store()
	if err != nil {
		return nil, err
	}
	p, err := store.Prepare(ctx, sessions.Request{
		Ref: f.session, Agent: agent, WorkingDir: cwd, Origin: sessions.OriginCLI,
		ForceNew: f.newSession, Reset: resetOf(w.config().Sessions.Reset),
	})
	if errors.Is(err, sessions.ErrWorkingDir) {
		return nil, &exitError{exitUsage, err}
	}
	return &p, sessionError(f.session, err)
}

// resetOf is a reset as the store wants it.
func resetOf(r config.Reset) sessions.Reset {
	idle := time.Duration(r.IdleMinutes) * time.Minute
	switch r.Mode {
	case "daily":
		return sessions.Reset{Daily: true, AtHour: int(r.AtHour), Idle: idle}
	case "idle":
		if idle == 0 {
			idle = time.Hour
		}
		return sessions.Reset{Idle: idle}
	}
	return sessions.Reset{}
}

// open opens the session of a run, a new one or the one that was prepared, with
// the agent that was asked for.
func (c *terminalClient) open(ctx context.Context, conn *acp.AgentConn, cwd string) (acp.SessionID, error) {
	p := c.prepared
	if p == nil {
		req := &acp.NewSessionRequest{CWD: cwd, MCPServers: []json.RawMessage{}}
		if c.flags.noSession {
			req.Meta = json.RawMessage(`{"noSession":true}`)
		}
		s, err := conn.NewSession(ctx, req)
		if err != nil {
			return "", err
		}
		return s.SessionID, c.haveAsk(ctx, conn, s.SessionID, s.ConfigOptions)
	}
	if p.Why != "" {
		text := fmt.Sprintf("%s goes on with a new session (%s); what was said before is in %s, and goes on by gander run --session %[3]s in its directory", p.Info.Key, p.Why, p.Info.PreviousID)
		if c.flags.format == formatText {
			c.mu.Lock()
			c.progress("! " + text)
			c.mu.Unlock()
		} else {
			c.app.log.Warn(text)
		}
	}
	resumed, err := conn.ResumeSession(ctx, &acp.ResumeSessionRequest{SessionID: p.Info.ID, CWD: cwd, MCPServers: []json.RawMessage{}})
	if err != nil {
		return "", err
	}
	options := resumed.ConfigOptions
	switch {
	case c.app.flags.Agent == "":
		c.agent = p.Info.Agent // the session's stays
	case c.app.flags.Agent != p.Info.Agent:
		value, _ := json.Marshal(c.app.flags.Agent) // a string always encodes
		set, err := conn.SetConfigOption(ctx, &acp.SetConfigOptionRequest{SessionID: p.Info.ID, ConfigID: optionAgent, Value: value})
		if err != nil {
			return "", err
		}
		options = set.ConfigOptions
	}
	return p.Info.ID, c.haveAsk(ctx, conn, p.Info.ID, options)
}

// askingMode is the mode in which an agent asks before it acts.
func askingMode(agent string) (string, error) {
	switch agent {
	case goose.Name:
		return "approve", nil
	case opencode.Name:
		return "ask", nil
	}
	return "", usageError("gander knows no mode in which the agent %s asks before it acts, so that --approve would not hold; leave --approve out, or choose goose or opencode with --agent", agent)
}

// haveAsk sees to it that --approve holds, where it was given: the agent asks before it
// acts, and only the client answers. Where goose only chats nothing is to be asked.
func (c *terminalClient) haveAsk(ctx context.Context, conn *acp.AgentConn, id acp.SessionID, options []acp.ConfigOption) error {
	if !c.flags.holds {
		return nil
	}
	current := map[string]string{}
	for i := range options {
		current[options[i].ID] = acpagent.StringValue(&options[i])
	}
	mode, err := askingMode(current[optionAgent])
	if err != nil {
		return err
	}
	if current[optionAgent] == goose.Name && current[optionMode] == "chat" {
		mode = "chat"
	}
	for _, want := range []struct{ option, value string }{{optionMode, mode}, {optionPermissions, router.PermissionsAsk}} {
		if current[want.option] == want.value {
			continue
		}
		value, _ := json.Marshal(want.value) // a string always encodes
		if _, err := conn.SetConfigOption(ctx, &acp.SetConfigOptionRequest{SessionID: id, ConfigID: want.option, Value: value}); err != nil {
			return &exitError{exitUsage, fmt.Errorf("%s cannot be made to ask, so that --approve %s would not hold: %w; leave --approve out, or choose another agent", current[optionAgent], c.flags.approve, err)}
		}
	}
	return nil
}

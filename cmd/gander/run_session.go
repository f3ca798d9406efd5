package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sessions"
)

// optionAgent is the config option of sessions that says who answers.
const optionAgent = "agent"

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
		return s.SessionID, nil
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
	_, err := conn.ResumeSession(ctx, &acp.ResumeSessionRequest{SessionID: p.Info.ID, CWD: cwd, MCPServers: []json.RawMessage{}})
	if err != nil {
		return "", err
	}
	switch {
	case c.app.flags.Agent == "":
		c.agent = p.Info.Agent // the session's stays
	case c.app.flags.Agent != p.Info.Agent:
		value, _ := json.Marshal(c.app.flags.Agent) // a string always encodes
		_, err = conn.SetConfigOption(ctx, &acp.SetConfigOptionRequest{SessionID: p.Info.ID, ConfigID: optionAgent, Value: value})
	}
	return p.Info.ID, err
}

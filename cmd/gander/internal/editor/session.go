package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/team/orchestrator"
	"gander.dev/gander/sessions"
)

// The config options of sessions that say who answers, what that asks about, and which
// of its questions get to the client.
const (
	optionAgent       = "agent"
	optionMode        = "mode"
	optionPermissions = "permissions"
	optionAccess      = "access"
)

// prepare finds or makes the session that a run goes on with; nil when it is one
// of its own.
func prepare(ctx context.Context, w *wire.Wiring, f *show.RunFlags, agent, cwd string) (*sessions.Prepared, error) {
	ref := f.Session
	if f.Continue {
		ref = sessions.LastRef
	}
	if ref == "" && !f.NewSession {
		return nil, nil
	}
	store, err := w.Store()
	if err != nil {
		return nil, err
	}
	p, err := store.Prepare(ctx, sessions.Request{
		Ref: ref, Agent: agent, WorkingDir: cwd, Origin: sessions.OriginCLI,
		ForceNew: f.NewSession, Reset: resetOf(w.Config().Sessions.Reset),
	})
	if errors.Is(err, sessions.ErrWorkingDir) {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	return &p, wire.SessionError(ref, err)
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
// the agent that was asked for, and returns its options.
func open(ctx context.Context, c *show.Terminal, conn *acp.AgentConn, cwd string) (acp.SessionID, []acp.ConfigOption, error) {
	p := c.Prepared
	if p == nil {
		meta := map[string]any{}
		if c.Flags.NoSession {
			meta["noSession"] = true
		}
		if c.Flags.ReadOnly {
			meta["access"] = router.AccessRead
		}
		raw, _ := json.Marshal(meta) // such a map always encodes
		req := &acp.NewSessionRequest{CWD: cwd, MCPServers: []json.RawMessage{}, Meta: raw}
		s, err := conn.NewSession(ctx, req)
		if err != nil {
			return "", nil, err
		}
		return s.SessionID, s.ConfigOptions, haveAsk(ctx, c, conn, s.SessionID, s.ConfigOptions)
	}
	if p.Why != "" {
		text := fmt.Sprintf("%s goes on with a new session (%s); what was said before is in %s, and goes on by gander run --session %[3]s in its directory", p.Info.Key, p.Why, p.Info.PreviousID)
		if c.Flags.Format == show.FormatText {
			c.Note("! " + text)
		} else {
			c.App.Log.Warn(text)
		}
	}
	resumed, err := conn.ResumeSession(ctx, &acp.ResumeSessionRequest{SessionID: p.Info.ID, CWD: cwd, MCPServers: []json.RawMessage{}})
	if err != nil {
		return "", nil, err
	}
	options := resumed.ConfigOptions
	switch {
	case c.App.Flags.Agent == "":
		c.Agent = p.Info.Agent // the session's stays
	case c.App.Flags.Agent != p.Info.Agent:
		value, _ := json.Marshal(c.App.Flags.Agent) // a string always encodes
		set, err := conn.SetConfigOption(ctx, &acp.SetConfigOptionRequest{SessionID: p.Info.ID, ConfigID: optionAgent, Value: value})
		if err != nil {
			return "", nil, err
		}
		options = set.ConfigOptions
	}
	if c.Flags.SetsAccess {
		access := router.AccessWrite
		if c.Flags.ReadOnly {
			access = router.AccessRead
		}
		value, _ := json.Marshal(access) // a string always encodes
		set, err := conn.SetConfigOption(ctx, &acp.SetConfigOptionRequest{SessionID: p.Info.ID, ConfigID: optionAccess, Value: value})
		if err != nil {
			return "", nil, err
		}
		options = set.ConfigOptions
	}
	return p.Info.ID, options, haveAsk(ctx, c, conn, p.Info.ID, options)
}

// askingModes returns the modes in which an agent does nothing unasked.
func askingModes(c *show.Terminal, agent string) ([]string, error) {
	if agent == orchestrator.Name {
		return []string{orchestrator.ModeAsk}, nil
	}
	known, _ := agents.Find(c.App.Config.Program(agent))
	if len(known.AskingModes) == 0 {
		return nil, cli.UsageError("gander knows no mode in which the agent %s asks before it acts, so that --approve would not hold; leave --approve out, or choose %s with --agent", agent, strings.Join(agents.Names(), " or "))
	}
	return known.AskingModes, nil
}

// haveAsk sees to it that --approve holds, where it was given: the agent asks before it
// acts, and only the client answers.
func haveAsk(ctx context.Context, c *show.Terminal, conn *acp.AgentConn, id acp.SessionID, options []acp.ConfigOption) error {
	if !c.Flags.Holds {
		return nil
	}
	current := map[string]string{}
	for i := range options {
		current[options[i].ID] = acpagent.StringValue(&options[i])
	}
	modes, err := askingModes(c, current[optionAgent])
	if err != nil {
		return err
	}
	mode := modes[0]
	if slices.Contains(modes, current[optionMode]) {
		mode = current[optionMode]
	}
	for _, want := range []struct{ option, value string }{{optionMode, mode}, {optionPermissions, router.PermissionsAsk}} {
		if current[want.option] == want.value {
			continue
		}
		value, _ := json.Marshal(want.value) // a string always encodes
		if _, err := conn.SetConfigOption(ctx, &acp.SetConfigOptionRequest{SessionID: id, ConfigID: want.option, Value: value}); err != nil {
			return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%s cannot be made to ask, so that --approve %s would not hold: %w; leave --approve out, or choose another agent", current[optionAgent], c.Flags.Approve, err)}
		}
	}
	return nil
}

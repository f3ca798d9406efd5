package unattended

import (
	"context"
	"fmt"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/fleet"
)

// newFleet makes the fleet of the configuration's agents, drivers and prices.
func newFleet(a *cli.App, w *wire.Wiring) (*fleet.Fleet, error) {
	program, err := cli.Program()
	if err != nil {
		return nil, err
	}
	return fleet.New(fleet.Options{
		Home: a.Config.Home, Program: program, Environ: w.Environ, Log: a.Log,
		Arguments: []string{"--home", a.Config.Home, "--log-format", "json", "--log-level", a.Config.Log.Level},
		Agents:    func(ctx context.Context) []controlplane.AgentInfo { return loopers(ctx, w) },
		Prepare:   func(ctx context.Context, s *controlplane.Spec) error { return prepare(ctx, w, s) },
	}), nil
}

// loopers lists the agents that can work through an instruction and end.
func loopers(ctx context.Context, w *wire.Wiring) []controlplane.AgentInfo {
	var infos []controlplane.AgentInfo
	for _, name := range w.Config().AgentNames() {
		agent, err := looper(w, name)
		if err != nil {
			continue
		}
		info := controlplane.AgentInfo{Name: name, Available: true}
		if err := agent.Check(ctx); err != nil {
			info.Available, info.Why = false, cli.MessageOf(err)
		}
		infos = append(infos, info)
	}
	return infos
}

// prepare says what is missing before a run starts, and gives it the pace of the
// environment where it has none.
func prepare(ctx context.Context, w *wire.Wiring, s *controlplane.Spec) error {
	agent, err := looper(w, s.Agent)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	driver, err := loopDriver(w, s.Driver, s.Workspace)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	if err := agent.Check(ctx); err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
	}
	if err := driver.Check(ctx); err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
	}
	if err := checkCost(w, s); err != nil {
		return err
	}
	if s.Pace == 0 {
		if s.Pace, err = paceOf(cli.Variable(w.Environ, paceVariable)); err != nil {
			return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
		}
	}
	return nil
}

// checkCost refuses a limit that every call of the model would exceed, because nobody
// knows what it costs.
func checkCost(w *wire.Wiring, s *controlplane.Spec) error {
	if s.Limits.Cost == 0 {
		return nil
	}
	p, err := w.Policy(s.Workspace)
	if err != nil {
		return fmt.Errorf("%w: %w", controlplane.ErrBadRequest, err)
	}
	model := s.Model
	if model == "" {
		endpoint, err := w.Config().Endpoint(s.Agent)
		if err != nil {
			return fmt.Errorf("%w: %w", controlplane.ErrUnavailable, err)
		}
		model = endpoint.Model
	}
	for name := range p.Model.Prices {
		if gateway.MatchModel([]string{name}, model) {
			return nil
		}
	}
	return fmt.Errorf("%w: what %s costs is not known, so that the limit of %g cannot be kept: set its price in policy.model.prices, or limit the tokens", controlplane.ErrBadRequest, model, s.Limits.Cost)
}

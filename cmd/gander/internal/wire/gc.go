package wire

import (
	"context"
	"errors"
	"slices"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// ClearAway clears away what killed ganders left, also sessions of which nothing was to
// be kept, and what agents keep of sessions that are no more. The daemon is asked only
// when one of the sandboxes is a container.
func ClearAway(ctx context.Context, a *cli.App, w *Wiring) ([]string, error) {
	records, err := registry.List(a.Config.Home) // before the rest is cleared away
	removed, localErr := local.GC(ctx, a.Config.Home)
	err = errors.Join(err, localErr)
	if slices.ContainsFunc(records, func(r registry.Record) bool { return r.Driver == docker.Name }) {
		more, dockerErr := docker.GC(ctx, w.DockerOptions(a.Config))
		removed, err = append(removed, more...), errors.Join(err, dockerErr)
	}
	err = errors.Join(err, keeper.Tidy(a.Config.Home))
	kept, keptErr := w.Kept()
	if keptErr == nil {
		keptErr = kept.Tidy(ctx)
	}
	return removed, errors.Join(err, keptErr)
}

const StopTime = 45 * time.Second // for a keeper to end its sandbox, whatever the daemon does

// State says whether a sandbox runs, and whether somebody still wants it. The
// first process of a container is to be seen where the daemon runs on this system.
func State(r registry.Record) string {
	seen, alive := r.Supervisor != registry.ProcessRef{}, r.Supervisor.Alive()
	switch {
	case r.Dead() && (alive || !seen && r.Container != ""):
		return stateLeftOver
	case r.Dead(), r.Here() && seen && !alive:
		return StateDead
	}
	return StateRunning
}

// The states of a sandbox.
const (
	StateRunning  = "running"
	stateLeftOver = "left over" // it runs, the gander that made it does not
	StateDead     = "dead"      // only its directory is there
)

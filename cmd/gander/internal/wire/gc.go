package wire

import (
	"context"
	"errors"
	"fmt"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/drivers"
	"gander.dev/gander/sandbox/drivers/caches"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// ClearAway clears away what killed ganders left, also sessions of which nothing was to
// be kept, what agents keep of sessions that are no more, and caches that nobody uses, or
// all of them.
func ClearAway(ctx context.Context, a *cli.App, w *Wiring, allCaches bool) ([]string, error) {
	records, err := registry.List(a.Config.Home)
	var removed []string
	for _, d := range drivers.All() {
		more, failed := d.ClearAway(ctx, w.driverOptions(a.Config), records)
		removed, err = append(removed, more...), errors.Join(err, failed)
	}
	projects, cachesErr := caches.Tidy(a.Config.Home, int64(a.Config.Sandbox.Caches), allCaches)
	for _, project := range projects {
		removed = append(removed, "caches of "+project)
	}
	err = errors.Join(err, cachesErr, keeper.Tidy(a.Config.Home))
	kept, keptErr := w.Kept()
	if keptErr == nil {
		keptErr = kept.Tidy(ctx)
	}
	return removed, errors.Join(err, keptErr)
}

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

// Stop ends a sandbox by its id, whichever driver made it.
func (w *Wiring) Stop(ctx context.Context, id string) error {
	cfg := w.Config()
	r, err := registry.Get(cfg.Home, id)
	if err != nil {
		return fmt.Errorf("stopping sandbox %s: %w", id, err)
	}
	d, known := drivers.Find(r.Driver)
	if !known {
		return fmt.Errorf("stopping sandbox %s: this version has no driver %q; stop it by the gander that made it", id, r.Driver)
	}
	return d.Stop(ctx, w.driverOptions(cfg), id)
}

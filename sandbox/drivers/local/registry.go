package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
)

// register writes the record of a new sandbox.
func (d *Driver) register(spec sandbox.Spec, b *box) (err error) {
	b.entry, err = registry.Register(d.options.StateDir, registry.Record{
		ID: spec.ID, Driver: d.name, Labels: spec.Labels, WorkingDir: spec.WorkingDir, Created: time.Now().UTC(),
		Owner: registry.Self(), Supervisor: registry.Process(b.proc.cmd.Process.Pid), Groups: b.bounds.directories(),
	})
	return err
}

// mine says whether a sandbox is one of this package's drivers: a process, not a container.
func mine(r registry.Record) bool { return r.Container == "" }

// Stop ends a sandbox of this package's drivers and everything in it, whoever made it.
func Stop(stateDir, id string) error {
	r, err := registry.Get(stateDir, id)
	if err == nil && !mine(r) {
		err = registry.ErrNotFound
	}
	if err == nil {
		err = kill(r.Supervisor)
	}
	if err != nil {
		return fmt.Errorf("stopping sandbox %s: %w", id, err)
	}
	return nil
}

// kill ends exactly this supervisor, and what it started; it is no error when it has ended.
func kill(r registry.ProcessRef) error {
	p, err := os.FindProcess(r.PID) // a handle, where the system has one
	if err != nil {
		return nil //nolint:nilerr // it has ended
	}
	defer func() { _ = p.Release() }()
	if !r.Alive() {
		return nil
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing the supervisor (process %d): %w", r.PID, err)
	}
	return sweep(r.PID)
}

// GC ends supervisors whose gander has died and removes what dead ones left below
// stateDir, apart from homes that are marked with registry.Keep. It returns
// the ids of the sandboxes it cleared away. It stops early when ctx ends.
func GC(ctx context.Context, stateDir string) ([]string, error) {
	list, err := registry.List(stateDir)
	if err != nil {
		return nil, err
	}
	cleared, err := registry.GC(stateDir)
	errs := []error{err}
	for _, r := range list {
		if ctx.Err() != nil {
			break
		}
		if !mine(r) || !r.Dead() {
			continue
		}
		removed, err := end(stateDir, r)
		if errs = append(errs, err); removed {
			cleared = append(cleared, r.ID)
		}
	}
	return cleared, errors.Join(errs...)
}

// end ends a dead gander's sandbox and clears it away.
func end(stateDir string, r registry.Record) (bool, error) {
	if err := kill(r.Supervisor); err != nil {
		return false, err
	}
	return registry.Clear(stateDir, r)
}

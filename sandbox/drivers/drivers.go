// Package drivers lists the kinds of sandboxes: each is a package below and a line of All.
package drivers

import (
	"context"
	"slices"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/drivers/registry"
)

// Options are those of all drivers.
type Options struct {
	Local  local.Options
	Docker docker.Options
}

// A Registration holds what gander has to know of a driver.
type Registration struct {
	// Name is the word for --sandbox.
	Name string
	// Isolates says that it makes a sandbox, and does not only supervise.
	Isolates bool
	// HasImages says that a sandbox has the system and the programs of an image, not this machine's.
	HasImages bool
	New       func(o Options) sandbox.Driver
	// Stop ends a sandbox of this driver by its id.
	Stop func(ctx context.Context, o Options, id string) error
	// ClearAway removes what killed ganders left, and names it. Records are all sandboxes of
	// the home as they were before anything was cleared away.
	ClearAway func(ctx context.Context, o Options, records []registry.Record) ([]string, error)
}

// All returns the drivers in the order in which they are offered.
func All() []Registration {
	return []Registration{
		{
			Name: local.Name, Isolates: true,
			New:  func(o Options) sandbox.Driver { return local.New(o.Local) },
			Stop: stopLocal,
			ClearAway: func(ctx context.Context, o Options, _ []registry.Record) ([]string, error) {
				return local.GC(ctx, o.Local.StateDir)
			},
		},
		{
			Name: docker.Name, Isolates: true, HasImages: true,
			New:  func(o Options) sandbox.Driver { return docker.New(o.Docker) },
			Stop: func(ctx context.Context, o Options, id string) error { return docker.Stop(ctx, o.Docker, id) },
			ClearAway: func(ctx context.Context, o Options, records []registry.Record) ([]string, error) {
				if !slices.ContainsFunc(records, func(r registry.Record) bool { return r.Driver == docker.Name }) {
					return nil, nil // the daemon need not be there
				}
				return docker.GC(ctx, o.Docker)
			},
		},
		{
			Name:      sandbox.Off,
			New:       func(o Options) sandbox.Driver { return local.NewOff(o.Local) },
			Stop:      stopLocal,
			ClearAway: func(context.Context, Options, []registry.Record) ([]string, error) { return nil, nil }, // local clears away for both
		},
	}
}

func stopLocal(_ context.Context, o Options, id string) error {
	return local.Stop(o.Local.StateDir, id)
}

// Find returns the driver of a name.
func Find(name string) (r Registration, known bool) {
	all := All()
	i := slices.IndexFunc(all, func(r Registration) bool { return r.Name == name })
	if i < 0 {
		return Registration{}, false
	}
	return all[i], true
}

// Names returns the names of All.
func Names() []string { return names(All()) }

// Isolating returns the names of those that isolate.
func Isolating() []string {
	return names(slices.DeleteFunc(All(), func(r Registration) bool { return !r.Isolates }))
}

func names(all []Registration) []string {
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names
}

// Auto returns the driver that the choice auto means on a system (runtime.GOOS): local on
// Linux, where it isolates and the project's own tools are, docker elsewhere, and never
// something weaker when that is missing.
func Auto(system string) string {
	if system == "linux" {
		return local.Name
	}
	return docker.Name
}

// Package drivers lists the kinds of sandboxes: each is a package below and a line of All.
package drivers

import (
	"slices"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/local"
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
	New      func(o Options) sandbox.Driver
}

// All returns the drivers in the order in which they are offered.
func All() []Registration {
	return []Registration{
		{local.Name, true, func(o Options) sandbox.Driver { return local.New(o.Local) }},
		{docker.Name, true, func(o Options) sandbox.Driver { return docker.New(o.Docker) }},
		{sandbox.Off, false, func(o Options) sandbox.Driver { return local.NewOff(o.Local) }},
	}
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

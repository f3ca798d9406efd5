package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// engine is what is known of a daemon.
type engine struct {
	machine system.Info
	podman  bool
}

// engines remembers daemons by their address: Podman takes seconds for the answers.
type engines struct {
	// mu guards what follows.
	mu    sync.Mutex
	known map[string]engine
}

// ask returns what is known of a daemon, and asks it where that is nothing.
func (e *engines) ask(ctx context.Context, cli *client.Client) (engine, error) {
	e.mu.Lock()
	found, ok := e.known[cli.DaemonHost()]
	e.mu.Unlock()
	if ok {
		return found, nil
	}
	found, err := askEngine(ctx, cli)
	if err != nil {
		return engine{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil {
		e.known = map[string]engine{}
	}
	e.known[cli.DaemonHost()] = found
	return found, nil
}

// forget is for when something went wrong: another daemon may have come in its place.
func (e *engines) forget(cli *client.Client) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, cli.DaemonHost())
}

// askEngine puts both questions at once.
func askEngine(ctx context.Context, cli *client.Client) (engine, error) {
	var version client.ServerVersionResult
	var versionErr error
	var wg sync.WaitGroup
	wg.Go(func() { version, versionErr = cli.ServerVersion(ctx, client.ServerVersionOptions{}) })
	machine, err := cli.Info(ctx, client.InfoOptions{})
	wg.Wait()
	if err != nil {
		return engine{}, fmt.Errorf("asking the daemon about the machine: %w", err)
	}
	if versionErr != nil {
		return engine{}, fmt.Errorf("asking the daemon for its version: %w", versionErr)
	}
	isPodman := func(c system.ComponentVersion) bool { return strings.Contains(c.Name, "Podman") }
	return engine{machine: machine.Info, podman: slices.ContainsFunc(version.Components, isPodman)}, nil
}

// filter is the seccomp profile for the daemon's containers: empty where the daemon has
// no filter, and for Podman, which takes a file's name in its place and whose own
// profile has all that the supervisor needs.
func (e engine) filter() (string, error) {
	filters := slices.ContainsFunc(e.machine.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") })
	if !filters || e.podman {
		return "", nil
	}
	return seccompProfile()
}

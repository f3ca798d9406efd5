package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"gander.dev/gander/sandbox/drivers/registry"
)

// List returns the containers that were made with o.StateDir, by the labels
// that they carry, the stopped ones too.
func List(ctx context.Context, o Options) ([]registry.Record, error) {
	cli, err := o.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cli.Close() }()
	found, err := containers(ctx, cli, o.StateDir)
	if err != nil {
		return nil, err
	}
	var list []registry.Record
	for _, c := range found {
		list = append(list, recordOf(c))
	}
	return list, nil
}

// containers are those that were made with stateDir. Labels are not all that tells: one that
// somebody runs of an image that was made of a sandbox's container (docker commit) has them, too.
func containers(ctx context.Context, cli *client.Client, stateDir string) ([]api.Summary, error) {
	filters := client.Filters{}.Add("label", labelID, labelHome+"="+stateDir)
	res, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	return slices.DeleteFunc(res.Items, func(c api.Summary) bool {
		return !slices.ContainsFunc(c.Names, func(name string) bool { return strings.HasPrefix(strings.TrimPrefix(name, "/"), namePrefix) })
	}), nil
}

// Stop ends a sandbox and everything in it, whoever made it. The error wraps
// registry.ErrNotFound when no container has this id.
func Stop(ctx context.Context, o Options, id string) error {
	cli, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = cli.Close() }()
	found, err := containers(ctx, cli, o.StateDir)
	if err != nil {
		return fmt.Errorf("stopping sandbox %s: %w", id, err)
	}
	err = registry.ErrNotFound
	for _, c := range found {
		if c.Labels[labelID] == id {
			err = remove(ctx, cli, c)
		}
	}
	if err != nil {
		return fmt.Errorf("stopping sandbox %s: %w", id, err)
	}
	return nil
}

func remove(ctx context.Context, cli *client.Client, c api.Summary) error {
	return (&container{cli: cli, id: c.ID, name: c.Labels[labelID]}).remove(ctx)
}

// GC removes containers whose gander has died and what they left below
// o.StateDir, apart from homes that are marked with registry.Keep. It
// returns the ids of the sandboxes it cleared away. A container of a gander on
// another machine, or in another container, is left alone while it runs. It stops
// early when ctx ends.
func GC(ctx context.Context, o Options) ([]string, error) {
	records, err := registry.List(o.StateDir)
	if err != nil {
		return nil, err
	}
	cli, err := o.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cli.Close() }()
	found, err := containers(ctx, cli, o.StateDir)
	if err != nil {
		return nil, err
	}
	var errs []error
	var cleared []string
	used := map[string]bool{} // containers that stay
	for _, c := range found {
		if !abandoned(c) || ctx.Err() != nil {
			used[c.ID] = true
			continue
		}
		if err := remove(ctx, cli, c); err != nil {
			errs = append(errs, err)
			used[c.ID] = true
			continue
		}
		cleared = append(cleared, c.Labels[labelID])
		records = append(records, recordOf(c))
	}
	more, err := clearAway(o.StateDir, records, used)
	cleared = append(cleared, more...)
	slices.Sort(cleared)
	return slices.Compact(cleared), errors.Join(append(errs, err)...)
}

// clearAway removes what sandboxes left below the state directory, apart from those
// whose containers are in use.
func clearAway(stateDir string, records []registry.Record, used map[string]bool) (cleared []string, err error) {
	for _, r := range records {
		if r.Driver != Name || !r.Dead() || used[r.Container] {
			continue
		}
		removed, cerr := registry.Clear(stateDir, r)
		if err = errors.Join(err, cerr); removed {
			cleared = append(cleared, r.ID)
		}
	}
	return cleared, err
}

// abandoned says whether nobody will use a container any more.
func abandoned(c api.Summary) bool {
	return recordOf(c).Dead() || c.State == api.StateExited || c.State == api.StateDead
}

// takeDown removes the container of a name when its gander has died, and says
// whether it did.
func (d *Driver) takeDown(ctx context.Context, cli *client.Client, name string) bool {
	found, err := containers(ctx, cli, d.options.StateDir)
	if err != nil {
		return false
	}
	for _, c := range found {
		if !slices.Contains(c.Names, "/"+name) || !abandoned(c) {
			continue
		}
		err := remove(ctx, cli, c)
		d.log.Warn("a container that a killed gander left was in the way", "container", name, "error", err)
		return err == nil
	}
	return false
}

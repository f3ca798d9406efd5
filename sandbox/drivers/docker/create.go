package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// createTimeout bounds the making of a container, which takes the daemon moments.
const createTimeout = 30 * time.Second

// create makes the container, under a second name when the first is taken. Podman does
// not say what health check an image has, but its containers do: then the container is
// made again.
func (d *Driver) create(ctx context.Context, cli *client.Client, p plan) (*container, error) {
	// The daemon would go on after a cancelled request, and nobody would know the
	// container: the answer is awaited in any case.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	name := p.name(false)
	again := func() (client.ContainerCreateResult, error) {
		return cli.ContainerCreate(whole, client.ContainerCreateOptions{Config: p.config(), HostConfig: p.hostConfig(), Name: name})
	}
	res, err := again()
	if nameTaken(err) && d.takeDown(whole, cli, name) {
		res, err = again()
	}
	if nameTaken(err) {
		name = p.name(true)
		res, err = again()
	}
	if err != nil {
		return nil, explain(fmt.Errorf("creating the container: %w", err), p)
	}
	for _, w := range res.Warnings {
		d.log.Warn("the daemon warns about a container", "sandbox", p.spec.ID, "warning", w)
	}
	c := &container{cli: cli, id: res.ID, name: name}
	if !p.hidden {
		return c, nil
	}
	made, err := cli.ContainerInspect(whole, c.id, client.ContainerInspectOptions{})
	if err == nil && (made.Container.Config == nil || made.Container.Config.Healthcheck == nil) {
		return c, nil
	}
	if err := errors.Join(err, c.remove(whole)); err != nil {
		return nil, fmt.Errorf("looking for a health check in the container: %w", err)
	}
	p.health, p.hidden = true, false
	return d.create(ctx, cli, p)
}

// nameTaken: Podman says so in words only.
func nameTaken(err error) bool {
	return errdefs.IsConflict(err) || err != nil && strings.Contains(err.Error(), "name is already in use")
}

// explain says what to do about an error of the daemon.
func explain(err error, p plan) error {
	words := err.Error()
	switch {
	case errdefs.IsNotFound(err) && strings.Contains(strings.ToLower(words), "image"):
		return fmt.Errorf("there is no image %s here; build it with: gander sandbox build (or make images in a checkout), or name another in the configuration", p.image)
	case strings.Contains(words, "bind source path does not exist"), strings.Contains(words, "statfs"):
		return fmt.Errorf("%w; the daemon does not see this machine's files: it must run on this machine, and outside of the container when gander runs in one", err)
	case strings.Contains(words, "Mounts denied"), strings.Contains(words, "not shared from"):
		return fmt.Errorf("%w; share the project's directory with Docker Desktop (Settings, Resources, File sharing)", err)
	case strings.Contains(words, "exec format error"):
		return fmt.Errorf("%w; the image %s is for another kind of processor than gander", err, p.image)
	case strings.Contains(words, "unable to upgrade"):
		return fmt.Errorf("%w; the daemon refuses to prepare the container and gives its reason only to its own command: docker run --rm %s true (or podman run)", err, p.image)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w; the daemon is slow or hangs: docker info", err)
	}
	return err
}

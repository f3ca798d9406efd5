package docker

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
)

// Ready says what is missing for an agent's sandbox: a daemon that answers, or the
// agent's image. It is nil when Create should work.
func (d *Driver) Ready(ctx context.Context, agent string) error {
	if _, err := d.options.program(); err != nil {
		return err
	}
	cli, err := d.options.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = cli.Close() }()
	name := d.options.Image(agent)
	_, err = cli.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("there is no image %s; gander sandbox build makes it", name)
	}
	return err
}

package install

import (
	"context"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/drivers/docker"
)

// BuildImages builds images as options say; whatever is this machine's goes to them here.
func BuildImages(ctx context.Context, a *cli.App, o docker.BuildOptions) error {
	p := show.Watch(a, "building the images for docker sandboxes", 4*time.Minute)
	o.Options, o.Env, o.Output = wire.New(a).DockerOptions(a.Config), a.Environ, p
	return p.End(docker.Build(ctx, o))
}

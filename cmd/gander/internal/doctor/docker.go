package doctor

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/install"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/drivers/docker"
)

// examineDocker asks the daemon, and starts the agents' images.
func examineDocker(ctx context.Context, a *cli.App, report func(Check)) {
	needed := wire.ChosenDriver(a.Config.Sandbox.Driver, runtime.GOOS) == docker.Name
	d := docker.New(wire.New(a).DockerOptions(a.Config))
	c := examineDaemon(ctx, a, d, needed)
	report(c)
	if c.State != CheckOK {
		return
	}
	agents := examinedAgents(a)
	if image := a.Config.Sandbox.Image; image != "" {
		agents = agents[:min(len(agents), 1)] // one image for all of them
	}
	ready := ""
	for _, agent := range agents {
		c := show.During(a, "starting the image of "+agent, 10*time.Second, func() Check { return examineImage(ctx, a, d, agent, needed) })
		report(c)
		if c.State == CheckOK || c.State == checkWarn {
			ready = cmp.Or(ready, agent)
		}
	}
	if ready != "" && !needed {
		report(show.During(a, "trying closed files in a container", 10*time.Second, func() Check {
			return examineClosed(ctx, a, docker.Name, map[string]string{"agent": ready})
		}))
	}
}

// examineDaemon asks the daemon whether it answers.
func examineDaemon(ctx context.Context, a *cli.App, d *docker.Driver, needed bool) Check {
	err := d.Check(ctx)
	if err == nil {
		return Check{ID: checkDaemon, State: CheckOK, What: "a Docker daemon answers"}
	}
	if needed {
		return failedCheck(checkDaemon, err, "start it, or name its socket in DOCKER_HOST; gander --sandbox local works without")
	}
	return Check{
		ID: checkDaemon, State: checkSkip, What: cli.MessageOf(err),
		Next: "nothing, unless you want --sandbox docker",
	}
}

// examineImage starts a container of an agent's image and asks the agent in it
// for its version.
func examineImage(ctx context.Context, a *cli.App, d *docker.Driver, agent string, needed bool) Check {
	id := checkImage + agent
	build := "gander sandbox build " + agent
	mendable := func(c Check) Check {
		if a.Config.Sandbox.Image == "" && pinnedVersion(agent) != "" {
			c.fix = func(ctx context.Context) error {
				return install.BuildImages(ctx, a, docker.BuildOptions{Agents: []string{agent}})
			}
			c.again = func(ctx context.Context) Check { return examineImage(ctx, a, d, agent, needed) }
		}
		return c
	}
	if err := d.Ready(ctx, agent); err != nil {
		c := failedCheck(id, err, build)
		if !needed {
			c.State, c.Next = checkSkip, "nothing, unless you want --sandbox docker; then "+build
			return c
		}
		return mendable(c)
	}
	if a.Config.Sandbox.Image != "" {
		_, err := runIn(ctx, a, wire.Place{Driver: docker.Name, Purpose: "doctor"}, []string{"true"})
		if err != nil {
			return failedCheck(id, err, "choose another sandbox.image, or take it out to use gander's own")
		}
		return Check{ID: id, State: CheckOK, What: a.Config.Sandbox.Image + " starts"}
	}
	image := docker.ImageName(agent)
	said, err := runIn(ctx, a, wire.Place{Driver: docker.Name, Purpose: "doctor", Labels: map[string]string{"agent": agent}}, []string{agent, "--version"})
	if err != nil {
		c := failedCheck(id, fmt.Errorf("%s does not start: %w", image, err), build+" builds it anew")
		if !needed {
			c.State = checkWarn
		}
		return mendable(c)
	}
	c := versionCheck(id, agent+" in "+image, versionIn(said), pinnedVersion(agent), build+" builds it anew")
	if c.State != CheckOK {
		return mendable(c)
	}
	return c
}

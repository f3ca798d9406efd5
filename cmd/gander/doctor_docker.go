package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"gander.dev/gander/sandbox/drivers/docker"
)

// examineDocker asks the daemon, and starts the agents' images.
func (a *app) examineDocker(ctx context.Context, report func(check)) {
	needed := chosenDriver(a.cfg.Sandbox.Driver, runtime.GOOS) == docker.Name
	d := docker.New(a.wire().dockerOptions(a.cfg))
	c := a.examineDaemon(ctx, d, needed)
	report(c)
	if c.State != checkOK {
		return
	}
	agents := a.examinedAgents()
	if image := a.cfg.Sandbox.Image; image != "" {
		agents = agents[:min(len(agents), 1)] // one image for all of them
	}
	ready := ""
	for _, agent := range agents {
		c := a.during("starting the image of "+agent, func() check { return a.examineImage(ctx, d, agent, needed) })
		report(c)
		if c.State == checkOK || c.State == checkWarn {
			ready = cmp.Or(ready, agent)
		}
	}
	if ready != "" && !needed {
		report(a.during("trying closed files in a container", func() check {
			return a.examineClosed(ctx, docker.Name, map[string]string{"agent": ready})
		}))
	}
}

// examineDaemon asks the daemon whether it answers.
func (a *app) examineDaemon(ctx context.Context, d *docker.Driver, needed bool) check {
	err := d.Check(ctx)
	if err == nil {
		return check{ID: checkDaemon, State: checkOK, What: "a Docker daemon answers"}
	}
	if needed {
		return failedCheck(checkDaemon, err, "start it, or name its socket in DOCKER_HOST; gander --sandbox local works without")
	}
	return check{
		ID: checkDaemon, State: checkSkip, What: messageOf(err),
		Next: "nothing, unless you want --sandbox docker",
	}
}

// examineImage starts a container of an agent's image and asks the agent in it
// for its version.
func (a *app) examineImage(ctx context.Context, d *docker.Driver, agent string, needed bool) check {
	id := checkImage + agent
	build := "gander sandbox build " + agent
	mendable := func(c check) check {
		if a.cfg.Sandbox.Image == "" && pinnedVersion(agent) != "" {
			c.fix = func(ctx context.Context) error {
				return a.buildImages(ctx, docker.BuildOptions{Agents: []string{agent}})
			}
			c.again = func(ctx context.Context) check { return a.examineImage(ctx, d, agent, needed) }
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
	if a.cfg.Sandbox.Image != "" {
		_, err := a.runIn(ctx, place{driver: docker.Name, purpose: "doctor"}, []string{"true"})
		if err != nil {
			return failedCheck(id, err, "choose another sandbox.image, or take it out to use gander's own")
		}
		return check{ID: id, State: checkOK, What: a.cfg.Sandbox.Image + " starts"}
	}
	image := docker.ImageName(agent)
	said, err := a.runIn(ctx, place{driver: docker.Name, purpose: "doctor", labels: map[string]string{"agent": agent}}, []string{agent, "--version"})
	if err != nil {
		c := failedCheck(id, fmt.Errorf("%s does not start: %w", image, err), build+" builds it anew")
		if !needed {
			c.State = checkWarn
		}
		return mendable(c)
	}
	c := versionCheck(id, agent+" in "+image, versionIn(said), pinnedVersion(agent), build+" builds it anew")
	if c.State != checkOK {
		return mendable(c)
	}
	return c
}

// buildImages builds images as options say; whatever is this machine's goes to them here.
func (a *app) buildImages(ctx context.Context, o docker.BuildOptions) error {
	p := a.watch("building the images for docker sandboxes")
	o.Options, o.Env, o.Output = a.wire().dockerOptions(a.cfg), a.environ, p
	return p.end(docker.Build(ctx, o))
}

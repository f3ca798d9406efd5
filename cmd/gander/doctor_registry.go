package main

import (
	"bytes"
	"context"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// registryTimeout bounds the question to the registry; npm's own is minutes.
const registryTimeout = 20 * time.Second

// examineRegistry asks the npm registry of this machine for a pinned agent, as
// gander agent install would. It matters when one is still to be installed.
func (a *app) examineRegistry(ctx context.Context) check {
	c := check{ID: checkRegistry, State: checkSkip, Next: "gander agent install works when npm does; npm config get registry says whom it asks"}
	if _, err := a.cfg.FindAgent(a.cfg.Agent); err != nil {
		c.State = checkWarn
	}
	pkg := packages()[a.cfg.Agent][runtime.GOOS+"/"+runtime.GOARCH]
	npm := a.lookPath("npm")
	switch {
	case pkg == "":
		return check{ID: checkRegistry, State: checkSkip, What: "npm has no package of " + a.cfg.Agent + " for this machine"}
	case npm == "":
		c.What, c.Next = "there is no npm in PATH", "install Node.js to use gander agent install, or install agents yourself"
		return c
	}
	said, err := a.askRegistry(ctx, npm, pkg)
	if err != nil {
		c.What = "npm does not get " + pkg + ": " + said
		return c
	}
	return check{ID: checkRegistry, State: checkOK, What: "npm finds " + pkg + " " + said}
}

// askRegistry is what npm says of a package: its version, or why it has none.
func (a *app) askRegistry(ctx context.Context, npm, pkg string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, registryTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, npm, "view", "--loglevel=error", pkg, "version")
	cmd.Dir, cmd.Env = a.cfg.Home, a.npmEnvironment()
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		if said := firstLine(complaint.String()); said != "" {
			return said, err
		}
		return err.Error(), err
	}
	return firstLine(out.String()), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// npmEnvironment is this environment without what is none of npm's business.
func (a *app) npmEnvironment() []string {
	return slices.DeleteFunc(slices.Clone(a.environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == a.cfg.Model.APIKeyEnv || slices.Contains([]string{"LLM_API_KEY", "CP_LLM_API_KEY"}, name)
	})
}

package doctor

import (
	"bytes"
	"context"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/install"
	"gander.dev/gander/sandbox/agents"
)

// registryTimeout bounds the question to the registry; npm's own is minutes.
const registryTimeout = 20 * time.Second

// examineRegistry asks the npm registry of this machine for a pinned agent, as
// gander agent install would. It matters when one is still to be installed.
func examineRegistry(ctx context.Context, a *cli.App) Check {
	c := Check{ID: checkRegistry, State: checkSkip, Next: "gander agent install works when npm does; npm config get registry says whom it asks"}
	if _, err := a.Config.FindAgent(a.Config.Agent); err != nil {
		c.State = checkWarn
	}
	known, _ := agents.Find(a.Config.Agent)
	pkg := known.Packages[runtime.GOOS+"/"+runtime.GOARCH]
	npm := a.LookPath("npm")
	switch {
	case pkg == "":
		return Check{ID: checkRegistry, State: checkSkip, What: "npm has no package of " + a.Config.Agent + " for this machine"}
	case npm == "":
		c.What, c.Next = "there is no npm in PATH", "install Node.js to use gander agent install, or install agents yourself"
		return c
	}
	said, err := askRegistry(ctx, a, npm, pkg)
	if err != nil {
		c.What = "npm does not get " + pkg + ": " + said
		return c
	}
	return Check{ID: checkRegistry, State: CheckOK, What: "npm finds " + pkg + " " + said}
}

// askRegistry is what npm says of a package: its version, or why it has none.
func askRegistry(ctx context.Context, a *cli.App, npm, pkg string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, registryTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, npm, "view", "--loglevel=error", pkg, "version")
	cmd.Dir, cmd.Env = a.Config.Home, install.NPMEnvironment(a)
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

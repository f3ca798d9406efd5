package demo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/drivers"
	"gander.dev/gander/sandbox/drivers/docker"
)

// demoCell is an agent in a kind of sandbox.
type demoCell struct {
	agent, sandbox string
	command        []string // starts the agent
}

func (c demoCell) String() string {
	return fmt.Sprintf("A real %s in the %s sandbox", c.agent, c.sandbox)
}

// inWordsOf puts an agent's names for its tools in the place of the script's.
func inWordsOf(agent, script string) string {
	known, _ := agents.Find(agent)
	t := known.Tools
	return strings.NewReplacer("SHELL", t.Shell, "FILE", t.File, "OLD", t.Before, "NEW", t.After).Replace(script)
}

// demoCells are those that can be played here. What was asked for must be among
// them; of the others, what is missing is said.
func demoCells(ctx context.Context, a *cli.App, f demoFlags) ([]demoCell, error) {
	var cells []demoCell
	var missing []error
	for _, agent := range agents.Names() {
		if f.agent != "" && f.agent != agent {
			continue
		}
		command, err := a.Config.FindAgent(agent)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		for _, sandbox := range drivers.Isolating() {
			if err := demoSandbox(ctx, a, agent, sandbox, f.sandbox); err != nil {
				missing = append(missing, fmt.Errorf("%s in %s: %w", agent, sandbox, err))
			} else if f.sandbox == "" || f.sandbox == sandbox {
				cells = append(cells, demoCell{agent, sandbox, command})
			}
		}
	}
	if len(cells) == 0 && len(missing) == 0 {
		missing = append(missing, fmt.Errorf("the demo knows the agents %s and the sandboxes %s", strings.Join(agents.Names(), " and "), strings.Join(drivers.Isolating(), " and ")))
	}
	if len(cells) == 0 {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: errors.Join(missing...)}
	}
	for _, err := range missing {
		fmt.Fprintf(a.Err, "not shown: %v\n", err)
	}
	return cells, nil
}

// demoSandbox says why a sandbox cannot be shown; one that was not asked for is no
// reason to complain.
func demoSandbox(ctx context.Context, a *cli.App, agent, sandbox, only string) error {
	switch {
	case only != "" && only != sandbox, sandbox != docker.Name:
		return nil
	case runtime.GOOS != "linux": // the agent of this system does not run in a container
		return errors.New("the demo plays in containers on Linux only")
	}
	return docker.New(wire.New(a).DockerOptions(a.Config)).Ready(ctx, agent)
}

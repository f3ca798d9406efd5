package unattended

import (
	"context"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// loopKeep is the hidden command of a run's host process, which gander serve starts.
func loopKeep(a *cli.App) *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:     "keep",
		Short:   "hold the sandbox of one unattended run",
		Example: "  gander loop keep --run ID   # what gander serve starts for each run",
		Hidden:  true,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return keep(cmd.Context(), a, id) },
	}
	cmd.Flags().StringVar(&id, "run", "", "the run's id")
	cmd.Flags().StringVar(&a.Flags.Model, "model", "", "the model (default: the configuration's)")
	return cmd
}

func keep(ctx context.Context, a *cli.App, id string) error {
	dir, err := keeper.RunDir(a.Config.Home, id)
	if err != nil {
		return err
	}
	spec, err := dir.Spec()
	if err != nil {
		return err
	}
	token, err := dir.Token()
	if err != nil {
		return err
	}
	a.Secrets.Learn([]string{token})
	w := wire.New(a)
	defer wire.Follow(ctx, a, w)()
	o, err := keeperOptions(w, dir, spec)
	if err != nil {
		return err
	}
	return keeper.Run(ctx, o)
}

// keeperOptions are what the keeper of a run is made of, the same as an editor's
// session has: the agent, the driver, the policy of the workspace and the ways out.
func keeperOptions(w *wire.Wiring, dir keeper.Dir, spec keeper.Spec) (keeper.Options, error) {
	agent, err := looper(w, spec.Agent)
	if err != nil {
		return keeper.Options{}, err
	}
	driver, err := loopDriver(w, spec.Driver, spec.Workspace)
	if err != nil {
		return keeper.Options{}, err
	}
	answers := permit.Open(wire.PermissionsDir(w.Config()))
	return keeper.Options{
		Home: w.Config().Home, Dir: dir, Agent: agent, Driver: driver, Terms: w.Ways, Ports: w.Config().OpenPorts(), Log: w.Log,
		AllowHost: func(address string) error {
			_, err := answers.Add(spec.Workspace, confine.HostRule(address, true))
			return err
		},
	}, nil
}

// looper is the agent of a name, as one that a loop can run.
func looper(w *wire.Wiring, name string) (keeper.Agent, error) {
	a, err := w.Agent(name)
	if err != nil {
		return nil, err
	}
	once, ok := a.(keeper.Agent)
	if !ok {
		return nil, cli.UsageError("%s cannot be run by a loop, which needs an agent that works through one instruction and ends: take one of %v, or one whose manifest names one of them", name, cli.AgentNames())
	}
	return once, nil
}

// loopDriver is the driver of a --sandbox choice in a workspace. Nobody is there to
// answer an agent's questions, so that it needs a sandbox.
func loopDriver(w *wire.Wiring, choice, workspace string) (sandbox.Driver, error) {
	if choice == "" {
		c, err := w.Choose(workspace)
		if err != nil {
			return nil, err
		}
		choice = c.Sandbox
	}
	if wire.ChosenDriver(choice, runtime.GOOS) == sandbox.Off {
		return nil, cli.UsageError("an unattended run needs a sandbox: take --sandbox %s", strings.Join(drivers.Isolating(), " or "))
	}
	return w.Driver(choice)
}

package editor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/wire"
)

// RouteCommand returns the command gander route.
func RouteCommand(a *cli.App) *cobra.Command {
	var cwd, message string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "route [MESSAGE…]",
		Short: "which agent would answer a prompt, where, and why",
		Long: `route starts nothing: it says which agent a prompt in this directory would be
answered by, in which sandbox and with which model, which setting decided each, and
what is still missing. Exit code 1 when the prompt could not be answered.`,
		Example: `  gander route
  gander route --cwd ~/project --agent opencode
  gander route --message "fix the test" --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if message != "" && len(args) > 0 {
				return cli.UsageError("the message is given twice; use --message or the arguments")
			}
			return route(cmd.Context(), a, cwd, cmp.Or(message, strings.Join(args, " ")), asJSON)
		},
	}
	a.RouteFlags(cmd)
	cmd.Flags().StringVar(&a.Flags.Model, "model", "", "the model (default: the configuration's)")
	cmd.Flags().StringVar(&cwd, "cwd", ".", "the project's directory")
	cmd.Flags().StringVar(&message, "message", "", "the prompt")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// routed is who would answer, as gander route --json prints it.
type routed struct {
	CWD     string `json:"cwd"`
	Message string `json:"message,omitempty"`
	Agent   chosen `json:"agent"`
	Sandbox chosen `json:"sandbox"`
	Model   chosen `json:"model"`
	// Host is the endpoint of the model calls.
	Host string `json:"host,omitempty"`
	// Command is what starts the agent.
	Command []string `json:"command,omitempty"`
	Ready   bool     `json:"ready"`
	// Missing is what stands in the way, with what to do about it.
	Missing []string `json:"missing,omitempty"`
}

// chosen is a value and what decided it.
type chosen struct {
	Value   string `json:"value"`
	Because string `json:"because"`
}

func route(ctx context.Context, a *cli.App, dir, message string, asJSON bool) error {
	cwd, err := cli.ProjectDir(dir)
	if err != nil {
		return err
	}
	cfg, err := a.Config.ForProject(cwd)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	r := routeIn(ctx, a, cfg, cwd)
	r.Message = message
	if asJSON {
		err = a.PrintJSON(r)
	} else {
		err = printRoute(a, r)
	}
	if err == nil && !r.Ready {
		return &cli.ExitError{Code: cli.ExitFailed, Err: errors.New("the prompt would not be answered: " + strings.Join(r.Missing, "\n"))}
	}
	return err
}

func routeIn(ctx context.Context, a *cli.App, cfg *config.Config, cwd string) routed {
	r := routed{CWD: cwd}
	w := wire.New(a)
	w.SetConfig(cfg)
	r.Agent = chosen{cfg.Agent, because(cfg, "--agent", a.Flags.Agent, "agent")}
	r.Sandbox = chosen{wire.ChosenDriver(cfg.Sandbox.Driver, runtime.GOOS), because(cfg, "--sandbox", a.Flags.Sandbox, "sandbox.driver")}
	if cfg.Sandbox.Driver != r.Sandbox.Value {
		r.Sandbox.Because += fmt.Sprintf("; %s is %s on %s", cfg.Sandbox.Driver, r.Sandbox.Value, runtime.GOOS)
	}
	endpoint, _ := cfg.Endpoint(cfg.Agent) // the agent's check says what is wrong with it
	r.Host = endpoint.BaseURL
	r.Model = chosen{endpoint.Model, cmp.Or(cfg.ModelSource(cfg.Agent), "nothing names one")}
	r.Command, _ = cfg.FindAgent(cfg.Agent) // likewise
	for _, err := range []error{missingAgent(ctx, w), missingSandbox(ctx, w), wire.PermittedModel(cfg, endpoint.Model)} {
		if err != nil {
			r.Missing = append(r.Missing, cli.MessageOf(err))
		}
	}
	r.Ready = len(r.Missing) == 0
	return r
}

// because is what decided a setting that a flag and files can have.
func because(cfg *config.Config, flag, given, key string) string {
	if given != "" {
		return flag
	}
	if file := cfg.SetIn(key); file != "" {
		return key + " in " + file
	}
	return "the default"
}

func printRoute(a *cli.App, r routed) error {
	_, err := fmt.Fprintf(a.Out, "agent     %-12s %s\nsandbox   %-12s %s\nmodel     %-12s %s\nendpoint  %s\ncommand   %s\n",
		r.Agent.Value, r.Agent.Because, r.Sandbox.Value, r.Sandbox.Because,
		cmp.Or(r.Model.Value, "-"), r.Model.Because, cmp.Or(r.Host, "-"), cmp.Or(strings.Join(r.Command, " "), "-"))
	return err
}

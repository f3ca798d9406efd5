package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/config"
)

func (a *app) routeCommand() *cobra.Command {
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
				return usageError("the message is given twice; use --message or the arguments")
			}
			return a.route(cmd.Context(), cwd, cmp.Or(message, strings.Join(args, " ")), asJSON)
		},
	}
	a.routeFlags(cmd)
	cmd.Flags().StringVar(&a.flags.Model, "model", "", "the model (default: the configuration's)")
	cmd.Flags().StringVar(&cwd, "cwd", ".", "the project's directory")
	cmd.Flags().StringVar(&message, "message", "", "the prompt")
	jsonFlag(cmd, &asJSON)
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

func (a *app) route(ctx context.Context, dir, message string, asJSON bool) error {
	cwd, err := projectDir(dir)
	if err != nil {
		return err
	}
	cfg, err := a.cfg.ForProject(cwd)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	r := a.routeIn(ctx, cfg, cwd)
	r.Message = message
	if asJSON {
		err = a.printJSON(r)
	} else {
		err = a.printRoute(r)
	}
	if err == nil && !r.Ready {
		return &exitError{exitFailed, errors.New("the prompt would not be answered: " + strings.Join(r.Missing, "\n"))}
	}
	return err
}

func (a *app) routeIn(ctx context.Context, cfg *config.Config, cwd string) routed {
	r := routed{CWD: cwd}
	w := a.wire()
	w.setConfig(cfg)
	r.Agent = chosen{cfg.Agent, because(cfg, "--agent", a.flags.Agent, "agent")}
	r.Sandbox = chosen{chosenDriver(cfg.Sandbox.Driver, runtime.GOOS), because(cfg, "--sandbox", a.flags.Sandbox, "sandbox.driver")}
	if cfg.Sandbox.Driver != r.Sandbox.Value {
		r.Sandbox.Because += fmt.Sprintf("; %s is %s on %s", cfg.Sandbox.Driver, r.Sandbox.Value, runtime.GOOS)
	}
	endpoint, _ := cfg.Endpoint(cfg.Agent) // the agent's check says what is wrong with it
	r.Host = endpoint.BaseURL
	r.Model = chosen{endpoint.Model, cmp.Or(cfg.ModelSource(cfg.Agent), "nothing names one")}
	r.Command, _ = cfg.FindAgent(cfg.Agent) // likewise
	for _, err := range []error{w.missingAgent(ctx), w.missingSandbox(ctx), permittedModel(cfg, endpoint.Model)} {
		if err != nil {
			r.Missing = append(r.Missing, messageOf(err))
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

func (a *app) printRoute(r routed) error {
	_, err := fmt.Fprintf(a.out, "agent     %-12s %s\nsandbox   %-12s %s\nmodel     %-12s %s\nendpoint  %s\ncommand   %s\n",
		r.Agent.Value, r.Agent.Because, r.Sandbox.Value, r.Sandbox.Because,
		cmp.Or(r.Model.Value, "-"), r.Model.Because, cmp.Or(r.Host, "-"), cmp.Or(strings.Join(r.Command, " "), "-"))
	return err
}

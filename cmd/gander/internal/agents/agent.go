// Package agents makes, lists and tries the agents and the endpoints of their models.
package agents

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/install"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
)

// Command returns the command gander agent; run is gander run.
func Command(a *cli.App, run *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "make, add, list, test, install and remove agents",
	}
	cmd.AddCommand(agentList(a), agentInfo(a), agentCreate(a), agentSet(a), agentDelete(a), agentRun(a, run), agentImport(a), agentTest(a), agentAdd(a), install.Command(a), agentRemove(a))
	cli.Group(cmd)
	return cmd
}

// agentRow is an agent as gander agent list prints it.
type agentRow struct {
	Name    string   `json:"name"`
	Ready   bool     `json:"ready"`
	Command []string `json:"command,omitempty"`
	// Missing says what is and how to get it.
	Missing string `json:"missing,omitempty"`
	// The fields below come from the agent's manifest, where it has one.
	Provider    string   `json:"provider,omitempty"`
	Endpoint    string   `json:"endpoint,omitempty"`
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	CanReceive  *bool    `json:"canReceive,omitempty"`
	Manifest    string   `json:"manifest,omitempty"`
}

func agentList(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the agents, and what each still needs",
		Long: `list shows the agents that can be chosen: those that gander brings, those of
config.json, and those that have manifests. One whose manifest is wrong is hidden, and
is shown with the line that is wrong.`,
		Example: "  gander agent list\n  gander agent list --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := agentRows(cmd.Context(), a)
			if asJSON {
				return a.PrintJSON(rows)
			}
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			for _, r := range rows {
				state := "ready: " + strings.Join(r.Command, " ")
				switch {
				case a.Config.OnlyTalks(r.Name):
					state = "ready: runs in gander itself, and only talks"
				case len(r.Command) == 0:
					state = "ready: runs in gander itself, and gives the others tasks"
				}
				if !r.Ready {
					state = "not ready: " + r.Missing
				}
				if r.Provider != "" && r.Provider != r.Name {
					state = r.Provider + ", " + state
				}
				fmt.Fprintf(w, "%s\t%s\n", r.Name, cli.Printable(state))
			}
			return w.Flush()
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func agentRows(ctx context.Context, a *cli.App) []agentRow {
	var rows []agentRow
	w := wire.New(a)
	for _, ag := range append(w.Agents(), w.Orchestrator(nil)) {
		r := agentRow{Name: ag.Name(), Ready: true}
		if m := a.Config.Manifest(ag.Name()); m != nil {
			r.Provider, r.Endpoint, r.Description, r.Tags, r.Manifest = m.Provider, m.Endpoint, m.Description, m.Tags, m.Path
			r.CanReceive = &m.Delegation.CanReceive
		}
		r.Command, _ = a.Config.FindAgent(ag.Name()) // Check says what is wrong with it
		if err := ag.Check(ctx); err != nil {
			r.Ready, r.Missing = false, err.Error()
		}
		rows = append(rows, r)
	}
	for _, p := range a.Config.TeamProblems() {
		rows = append(rows, agentRow{Name: p.Agent, Missing: p.Error(), Manifest: p.Path})
	}
	return rows
}

func agentTest(a *cli.App) *cobra.Command {
	var driver string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "start an agent in its sandbox and say what is missing",
		Long: `test checks what an agent needs, starts it in a sandbox of an empty directory and opens
a session there. It does not call the model; gander doctor does.`,
		Example:           "  gander agent test goose\n  gander agent test opencode --sandbox docker",
		ValidArgsFunction: cli.CompleteFirst(a.AgentsForShell),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one agent, as in: gander agent test %s", cli.AgentNames()[0])
			}
			ag, err := wire.New(a).Agent(args[0])
			if err != nil {
				return err
			}
			if err := ag.Check(cmd.Context()); err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			if _, hosted := ag.(sandbox.Hosted); hosted {
				return testHosted(a, ag, asJSON)
			}
			return testAgent(cmd.Context(), a, ag, driver, asJSON)
		},
	}
	cmd.Flags().StringVar(&driver, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	a.WeakerFlag(cmd)
	cli.JSONFlag(cmd, &asJSON)
	cli.CompleteFlag(cmd, "sandbox", cli.SandboxChoices()...)
	return cmd
}

// tested holds what gander agent test has found.
type tested struct {
	Name     string   `json:"name"`
	Millis   int64    `json:"durationMs"`
	Mode     string   `json:"mode,omitempty"`
	Model    string   `json:"model,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// testHosted is testAgent for an agent without a sandbox, of which Check has said all.
func testHosted(a *cli.App, ag sandbox.Agent, asJSON bool) error {
	found := tested{Name: ag.Name(), Model: modelIn(ag.Defaults().ConfigOptions)}
	if asJSON {
		return a.PrintJSON(found)
	}
	_, err := fmt.Fprintf(a.Out, "%s has what it needs, and runs in gander itself\nmodel      %s\n", ag.Name(), cli.Printable(found.Model))
	return err
}

// modelIn returns the model that the options of a session name.
func modelIn(options []acp.ConfigOption) string {
	model := ""
	for _, o := range options {
		if o.Category == acp.CategoryModel {
			model = strings.Trim(string(o.CurrentValue), `"`)
		}
	}
	return model
}

func testAgent(ctx context.Context, a *cli.App, ag sandbox.Agent, driver string, asJSON bool) error {
	w := wire.New(a)
	model, err := w.Ways.OpenModel(confine.Way{Agent: ag.Name(), Context: ctx, Notice: func(_, text string) { a.Log.Warn(text) }}, a.Config.Policy)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	started := time.Now()
	p := show.Watch(a, "starting "+ag.Name()+" in its sandbox", 5*time.Second)
	sess, done, err := wire.OpenAgent(ctx, a, ag, model, driver)
	p.Clear()
	if err != nil {
		return err
	}
	defer done()
	state := sess.State()
	found := tested{Name: ag.Name(), Millis: time.Since(started).Milliseconds(), Warnings: state.Notices}
	if m := state.Modes; m != nil {
		found.Mode = m.CurrentModeID
	}
	found.Model = modelIn(state.ConfigOptions)
	if asJSON {
		return a.PrintJSON(found)
	}
	fmt.Fprintf(a.Out, "%s opened a session in its sandbox after %s\n", ag.Name(), cli.RoundDuration(time.Since(started)))
	if found.Mode != "" {
		fmt.Fprintf(a.Out, "mode       %s\n", cli.Printable(found.Mode))
	}
	if found.Model != "" {
		fmt.Fprintf(a.Out, "model      %s\n", cli.Printable(found.Model))
	}
	for _, n := range state.Notices {
		fmt.Fprintln(a.Out, "warning   ", cli.Printable(n))
	}
	return nil
}

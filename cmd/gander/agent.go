package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
)

func (a *app) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "list, test and install agents",
	}
	cmd.AddCommand(a.agentList(), a.agentTest(), a.agentInstall())
	group(cmd)
	return cmd
}

// agentRow is an agent as gander agent list prints it.
type agentRow struct {
	Name    string   `json:"name"`
	Ready   bool     `json:"ready"`
	Command []string `json:"command,omitempty"`
	// Missing says what is and how to get it.
	Missing string `json:"missing,omitempty"`
}

func (a *app) agentList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "the agents, and what each still needs",
		Example: "  gander agent list\n  gander agent list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := a.agentRows(cmd.Context())
			if asJSON {
				return a.printJSON(rows)
			}
			w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
			for _, r := range rows {
				state := "ready: " + strings.Join(r.Command, " ")
				if !r.Ready {
					state = "not ready: " + r.Missing
				}
				fmt.Fprintf(w, "%s\t%s\n", r.Name, state)
			}
			return w.Flush()
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) agentRows(ctx context.Context) []agentRow {
	var rows []agentRow
	for _, ag := range a.wire().agents() {
		r := agentRow{Name: ag.Name(), Ready: true}
		r.Command, _ = a.cfg.FindAgent(ag.Name()) // Check says what is wrong with it
		if err := ag.Check(ctx); err != nil {
			r.Ready, r.Missing = false, err.Error()
		}
		rows = append(rows, r)
	}
	return rows
}

// testTimeout is how long an agent may take to open a session.
const testTimeout = time.Minute

func (a *app) agentTest() *cobra.Command {
	var driver string
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "start an agent in its sandbox and say what is missing",
		Long: `test checks what an agent needs, starts it in a sandbox of an empty directory and opens
a session there. It does not call the model; gander doctor does.`,
		Example:           "  gander agent test goose\n  gander agent test opencode --sandbox docker",
		ValidArgsFunction: completeFirst(a.agentsForShell),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("name one agent, as in: gander agent test %s", agentNames()[0])
			}
			ag, err := a.wire().agent(args[0])
			if err != nil {
				return err
			}
			if err := ag.Check(cmd.Context()); err != nil {
				return &exitError{exitUsage, err}
			}
			return a.testAgent(cmd.Context(), ag, driver)
		},
	}
	cmd.Flags().StringVar(&driver, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	a.weakerFlag(cmd)
	completeFlag(cmd, "sandbox", sandboxChoices()...)
	return cmd
}

func (a *app) testAgent(ctx context.Context, ag sandbox.Agent, driver string) error {
	w := a.wire()
	model, err := w.ways.OpenModel(confine.Way{Agent: ag.Name(), Context: ctx, Notice: func(_, text string) { a.log.Warn(text) }})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	started := time.Now()
	p := a.watch("starting " + ag.Name() + " in its sandbox")
	sess, done, err := a.openAgent(ctx, ag, model, driver)
	p.clear()
	if err != nil {
		return err
	}
	defer done()
	state := sess.State()
	fmt.Fprintf(a.out, "%s opened a session in its sandbox after %s\n", ag.Name(), roundDuration(time.Since(started)))
	if m := state.Modes; m != nil {
		fmt.Fprintf(a.out, "mode       %s\n", printable(m.CurrentModeID))
	}
	for _, o := range state.ConfigOptions {
		if o.Category == acp.CategoryModel {
			fmt.Fprintf(a.out, "model      %s\n", printable(strings.Trim(string(o.CurrentValue), `"`)))
		}
	}
	for _, n := range state.Notices {
		fmt.Fprintln(a.out, "warning   ", printable(n))
	}
	return nil
}

// silent is an acp.Client for an agent that is not prompted.
type silent struct{}

func (silent) SessionUpdate(context.Context, *acp.SessionNotification) error { return nil }

func (silent) RequestPermission(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	return acp.CancelledOutcome(), nil
}

// cleanup is what is to be undone, the last first.
type cleanup []func()

func (c *cleanup) add(f func()) { *c = append(*c, f) }

func (c *cleanup) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
}

// openAgent opens a session of an agent in a new sandbox of an empty directory.
// The model is closed with it, and when it fails.
func (a *app) openAgent(ctx context.Context, ag sandbox.Agent, model confine.Model, driver string) (sandbox.AgentSession, func(), error) {
	slow := fmt.Errorf("%s did not open a session within %s; gander agent test %[1]s --log-level debug shows what it says", ag.Name(), testTimeout)
	ctx, stop := context.WithTimeoutCause(ctx, testTimeout, slow)
	defer stop()
	undo := new(cleanup)
	undo.add(func() { _ = model.Close() })
	sess, err := a.tryAgent(ctx, ag, model, driver, undo)
	if err == nil {
		return sess, undo.run, nil
	}
	undo.run()
	if context.Cause(ctx) == slow {
		err = slow
	}
	return nil, nil, err
}

func (a *app) tryAgent(ctx context.Context, ag sandbox.Agent, model confine.Model, driver string, undo *cleanup) (sandbox.AgentSession, error) {
	dir, err := os.MkdirTemp("", "gander-test-")
	if err != nil {
		return nil, fmt.Errorf("making a project to test with: %w; %s", err, temporaryAdvice)
	}
	undo.add(func() { a.remove(dir) })
	in, closeSandbox, err := a.openSandbox(ctx, place{
		driver: driver, cwd: dir, name: "test-" + randomName(), purpose: "test",
		labels: map[string]string{"agent": ag.Name()},
		mounts: ag.Mounts(), doors: []sandbox.Door{{Name: confine.ModelDoor, Dial: model.Dial}},
	})
	if err != nil {
		return nil, err
	}
	undo.add(closeSandbox)
	sess, err := ag.Open(ctx, in.Sandbox, sandbox.SessionParams{WorkingDir: dir, ModelAddr: in.Sandbox.Info().Doors[confine.ModelDoor], ModelToken: model.Token(), Client: silent{}})
	if err != nil {
		return nil, err
	}
	undo.add(func() { _ = sess.Close() })
	return sess, nil
}

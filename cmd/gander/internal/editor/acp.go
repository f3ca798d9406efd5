// Package editor holds the commands that have prompts answered: acp for editors, run for
// people and scripts, route, which tells who would answer, and replay.
package editor

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/team/orchestrator"
)

// ACPCommand returns the command gander acp.
func ACPCommand(a *cli.App, setup func(context.Context, *cli.App) error) *cobra.Command {
	var f acpFlags
	var setUp bool
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "serve an editor: an ACP agent on stdin and stdout",
		Long: `acp is what an editor starts. It speaks the Agent Client Protocol on stdin and
stdout and has prompts answered by an agent in a sandbox. Logs go to stderr. It
ends, with everything it started, when its stdin ends or it gets a signal.

The configuration is read again when its file changes; sessions that are opened
later use it. "gander config TARGET" prints the entry for an editor.`,
		Example: "  gander acp --agent goose\n  gander acp --trace /tmp/acp.jsonl   # every frame, for a bug report",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if setUp {
				return setup(cmd.Context(), a)
			}
			if f.historyLimit < 0 {
				return cli.UsageError("--history-limit %d is negative; leave it out to replay whole threads", f.historyLimit)
			}
			return serveACP(cmd.Context(), a, f)
		},
	}
	a.RouteFlags(cmd)
	cli.TraceFlag(cmd, &f.trace)
	cmd.Flags().IntVar(&f.historyLimit, "history-limit", 0, "replay only this many of the last messages and tool calls when a thread is loaded (default: all)")
	cmd.Flags().StringVar(&f.sessionPrefix, "session-prefix", "acp", "the beginning of the keys of new sessions")
	cmd.Flags().BoolVar(&setUp, "setup", false, "instead of serving, ask on the terminal for what gander needs, as gander setup does (editors offer this)")
	return cmd
}

// acpFlags are the flags of gander acp alone.
type acpFlags struct {
	trace         string
	historyLimit  int
	sessionPrefix string
}

// serveACP serves the editor until its stream ends or gander is told to stop.
func serveACP(ctx context.Context, a *cli.App, f acpFlags) error {
	w := wire.NewWiring(a, true)
	w.HistoryLimit, w.SessionPrefix = f.historyLimit, f.sessionPrefix
	if err := w.CheckChoices(); err != nil {
		return err
	}
	var t *cli.Tracer
	if f.trace != "" {
		var err error
		if t, err = a.NewTracer(f.trace); err != nil {
			return err
		}
		defer t.Close()
	}
	if cli.IsTerminal(a.In) {
		a.Log.Warn("gander acp is started by editors and waits for their messages on stdin; Ctrl-D ends it, gander run is for people")
	}
	defer lookAhead(ctx, a, w)()
	defer wire.Follow(ctx, a, w)()
	return serveClient(ctx, w, cli.NewStream(a.In, a.Out), t)
}

// lookAheadTime bounds the questions to a daemon that may hang.
const lookAheadTime = 10 * time.Second

// lookAhead says early, where editors show stderr, what will fail the first session,
// and clears away what killed ganders left. The editor does not wait for it. It is
// over when the function that it returns is.
func lookAhead(ctx context.Context, a *cli.App, w *wire.Wiring) (stop func()) {
	missing := func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil {
			a.Log.Warn("sessions cannot be opened yet: " + err.Error())
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		here := context.WithoutCancel(ctx) // it asks nobody else
		missing(here, missingAgent(here, w))
		asking, done := context.WithTimeout(ctx, lookAheadTime)
		defer done()
		missing(ctx, missingSandbox(asking, w))
		cleared, err := wire.ClearAway(ctx, a, w, false)
		if len(cleared) > 0 {
			a.Log.Warn("cleared away what a killed gander left: " + strings.Join(cleared, ", "))
		}
		if err != nil && ctx.Err() == nil {
			a.Log.Info("what a killed gander left may still be there; gander sandbox gc tries again", "err", err)
		}
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// missingAgent says what the configured agent lacks.
func missingAgent(ctx context.Context, w *wire.Wiring) error {
	agent, err := w.Agent(w.Config().Agent)
	if err != nil {
		return err
	}
	return agent.Check(ctx)
}

// missingSandbox says what its sandbox lacks.
func missingSandbox(ctx context.Context, w *wire.Wiring) error {
	cfg := w.Config()
	driver, err := w.Driver(cfg.Sandbox.Driver)
	if err != nil {
		return err
	}
	if err := errors.Join(driver.Check(ctx), wire.CheckShown(cfg)); err != nil {
		return err
	}
	if images, ok := driver.(interface {
		Ready(ctx context.Context, agent string) error
	}); ok && cfg.Agent != orchestrator.Name && !cfg.OnlyTalks(cfg.Agent) { // which have no sandbox
		return images.Ready(ctx, cfg.Agent)
	}
	return nil
}

// manners is how long the handlers of a connection that has ended may take before
// the agents they wait for are ended without further asking.
const manners = 500 * time.Millisecond

// serveClient runs a router for one client until the client goes away or ctx ends.
// Nothing that it started is left when it returns.
func serveClient(ctx context.Context, w *wire.Wiring, s io.ReadWriteCloser, t *cli.Tracer) error {
	store, err := w.Store()
	if err != nil {
		return err
	}
	runs, err := w.Runs()
	if err != nil {
		return err
	}
	away, err := w.NewAway()
	if err != nil {
		return err
	}
	defer away.Close()
	over, end := context.WithCancel(ctx)
	defer end()
	served := make(chan struct{})
	var r *router.Router
	var closing sync.WaitGroup
	newAgent := func(client *acp.ClientConn) acp.Agent {
		o := routerOptions(w, store, runs)
		o.Away = away.Ask
		r = router.New(client, o)
		closing.Go(func() { closeSoon(over, served, r) })
		return r
	}
	err = acp.ServeAgent(ctx, cli.EndNoticed{ReadWriteCloser: s, End: end}, newAgent, t.Options(w.Log))
	close(served)
	end()
	closing.Wait()
	r.Close() // what was opened while it closed
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // told to stop: that is done
	}
	return err
}

// closeSoon closes a router once its connection is over and served, or has had
// the time for that: a handler may wait for an agent that does not answer.
func closeSoon(over context.Context, served <-chan struct{}, r *router.Router) {
	<-over.Done()
	late := time.NewTimer(manners)
	defer late.Stop()
	select {
	case <-served:
	case <-late.C:
	}
	r.Close()
}

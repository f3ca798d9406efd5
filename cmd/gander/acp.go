package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/router"
)

func (a *app) acpCommand() *cobra.Command {
	var f acpFlags
	var setup bool
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "serve an editor: an ACP agent on stdin and stdout",
		Long: `acp is what an editor starts. It speaks the Agent Client Protocol on stdin and
stdout and has prompts answered by an agent in a sandbox. Logs go to stderr. It
ends, with everything it started, when its stdin ends or it gets a signal.

The configuration is read again when its file changes; sessions that are opened
later use it. "gander config TARGET" prints the entry for an editor.`,
		Example: "  gander acp --agent goose\n  gander acp --trace /tmp/acp.jsonl   # every frame, for a bug report",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if setup {
				return a.setup(cmd.Context(), setupFlags{})
			}
			if f.historyLimit < 0 {
				return usageError("--history-limit %d is negative; leave it out to replay whole threads", f.historyLimit)
			}
			return a.serveACP(cmd.Context(), f)
		},
	}
	a.routeFlags(cmd)
	traceFlag(cmd, &f.trace)
	cmd.Flags().IntVar(&f.historyLimit, "history-limit", 0, "replay only this many of the last messages and tool calls when a thread is loaded (default: all)")
	cmd.Flags().StringVar(&f.sessionPrefix, "session-prefix", "acp", "the beginning of the keys of new sessions")
	cmd.Flags().BoolVar(&setup, "setup", false, "instead of serving, ask on the terminal for what gander needs, as gander setup does (editors offer this)")
	return cmd
}

// acpFlags are the flags of gander acp alone.
type acpFlags struct {
	trace         string
	historyLimit  int
	sessionPrefix string
}

// routeFlags are the flags that choose who answers and where.
func (a *app) routeFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.flags.Agent, "agent", "", "who answers: goose, opencode or an agent of the configuration (default: the configuration's, else goose)")
	cmd.Flags().StringVar(&a.flags.Sandbox, "sandbox", "", "where: auto, local, docker or off (default: the configuration's, else auto)")
	a.weakerFlag(cmd)
	a.completeAgents(cmd)
	completeFlag(cmd, "sandbox", sandboxChoices()...)
}

// weakerFlag is the permission to do without the kernel's help.
func (a *app) weakerFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.flags.AllowWeaker, "allow-weaker", false, "start also where less holds than promised: files and network, or closed files, are open")
}

func traceFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "trace", "", "append every frame, with its direction and time, to this file as JSON lines")
}

// serveACP serves the editor until its stream ends or gander is told to stop.
func (a *app) serveACP(ctx context.Context, f acpFlags) error {
	w := newWiring(a, true)
	w.historyLimit, w.sessionPrefix = f.historyLimit, f.sessionPrefix
	if err := w.checkChoices(); err != nil {
		return err
	}
	var t *tracer
	if f.trace != "" {
		var err error
		if t, err = a.newTracer(f.trace); err != nil {
			return err
		}
		defer t.close()
	}
	if isTerminal(a.in) {
		a.log.Warn("gander acp is started by editors and waits for their messages on stdin; Ctrl-D ends it, gander run is for people")
	}
	defer a.lookAhead(ctx, w)()
	defer a.follow(ctx, w)()
	return w.serve(ctx, newStream(a.in, a.out), t)
}

// lookAheadTime bounds the questions to a daemon that may hang.
const lookAheadTime = 10 * time.Second

// lookAhead says early, where editors show stderr, what will fail the first session,
// and clears away what killed ganders left. The editor does not wait for it. It is
// over when the function that it returns is.
func (a *app) lookAhead(ctx context.Context, w *wiring) (stop func()) {
	missing := func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil {
			a.log.Warn("sessions cannot be opened yet: " + err.Error())
		}
	}
	missing(ctx, w.missingAgent(ctx)) // asks nobody else
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		asking, done := context.WithTimeout(ctx, lookAheadTime)
		defer done()
		missing(ctx, w.missingSandbox(asking))
		cleared, err := a.clearAway(ctx, w)
		if len(cleared) > 0 {
			a.log.Warn("cleared away what a killed gander left: " + strings.Join(cleared, ", "))
		}
		if err != nil && ctx.Err() == nil {
			a.log.Info("what a killed gander left may still be there; gander sandbox gc tries again", "err", err)
		}
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// missingAgent says what the configured agent lacks.
func (w *wiring) missingAgent(ctx context.Context) error {
	agent, err := w.agent(w.config().Agent)
	if err != nil {
		return err
	}
	return agent.Check(ctx)
}

// missingSandbox says what its sandbox lacks.
func (w *wiring) missingSandbox(ctx context.Context) error {
	cfg := w.config()
	driver, err := w.driver(cfg.Sandbox.Driver)
	if err != nil {
		return err
	}
	if err := errors.Join(driver.Check(ctx), checkShown(cfg)); err != nil {
		return err
	}
	if images, ok := driver.(interface {
		Ready(ctx context.Context, agent string) error
	}); ok {
		return images.Ready(ctx, cfg.Agent)
	}
	return nil
}

// follow follows changes of the configuration until the function it returns is
// called; sessions opened after a change use it.
func (a *app) follow(ctx context.Context, w *wiring) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		err := a.cfg.Watch(ctx, func(cfg *config.Config, err error) { a.reloaded(w, cfg, err) })
		if err != nil && ctx.Err() == nil {
			a.log.Warn("changes of the configuration are not followed; restart gander after one", "err", err)
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

func (a *app) reloaded(w *wiring, cfg *config.Config, err error) {
	if err == nil {
		err = w.checkChoicesOf(cfg)
	}
	if err != nil {
		a.log.Error("the changed configuration is not used: " + err.Error())
		return
	}
	a.secrets.learn(cfg.Secrets())
	a.setLogLevel(cfg.Log.Level)
	w.setConfig(cfg)
	a.log.Info("the configuration has changed; new sessions use it")
}

// manners is how long the handlers of a connection that has ended may take before
// the agents they wait for are ended without further asking.
const manners = 500 * time.Millisecond

// serve runs a router for one client until the client goes away or ctx ends.
// Nothing that it started is left when it returns.
func (w *wiring) serve(ctx context.Context, s io.ReadWriteCloser, t *tracer) error {
	store, err := w.store()
	if err != nil {
		return err
	}
	runs, err := w.runs()
	if err != nil {
		return err
	}
	over, end := context.WithCancel(ctx)
	defer end()
	served := make(chan struct{})
	var r *router.Router
	var closing sync.WaitGroup
	newAgent := func(client *acp.ClientConn) acp.Agent {
		r = router.New(client, w.routerOptions(store, runs))
		closing.Go(func() { closeSoon(over, served, r) })
		return r
	}
	err = acp.ServeAgent(ctx, endNoticed{s, end}, newAgent, t.options(w.log))
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

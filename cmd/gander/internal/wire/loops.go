package wire

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// loops are the runs of the home's control plane, for editors that attach to them. It
// implements router.Loops. Where the control plane is, is looked up for each question:
// it may have come back elsewhere.
type loops struct {
	home    string
	secrets *cli.Secrets

	// mu guards what follows.
	mu   sync.Mutex
	at   client.Options
	c    *client.Client
	runs map[acp.SessionID]string // the ids of runs by their sessions, as far as asked for
}

func (w *Wiring) Loops() *loops {
	return &loops{home: w.Config().Home, secrets: w.Secrets, runs: map[acp.SessionID]string{}}
}

// client is that of the control plane as it is now.
func (l *loops) client() (*client.Client, error) {
	at, err := PlaneOf(l.home, PlaneFlags{})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c != nil && l.at == at {
		return l.c, nil
	}
	c, err := client.New(at)
	if err != nil {
		return nil, err
	}
	l.secrets.Learn([]string{at.Token})
	if l.c != nil {
		l.c.Close()
	}
	l.at, l.c = at, c
	return c, nil
}

// do asks the control plane about the run of a session.
func (l *loops) do(ctx context.Context, session acp.SessionID, ask func(c *client.Client, run string) error) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	run, err := l.runOf(ctx, c, session)
	if err == nil {
		err = ask(c, run)
	}
	switch refused, ok := errors.AsType[*client.Error](err); {
	case errors.Is(err, client.ErrNobody):
		return ErrNoPlane(l.home)
	case ok && refused.Status == 404:
		return router.ErrNoLoop
	}
	return err
}

// runOf is the run of a session; router.ErrNoLoop when there is none.
func (l *loops) runOf(ctx context.Context, c *client.Client, session acp.SessionID) (string, error) {
	l.mu.Lock()
	known := l.runs[session]
	l.mu.Unlock()
	if known != "" {
		return known, nil
	}
	runs, err := c.Runs(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(runs, func(r controlplane.Run) bool { return r.SessionID == string(session) })
	if i < 0 {
		return "", router.ErrNoLoop
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[session] = runs[i].RunID
	return runs[i].RunID, nil
}

// Loop implements router.Loops.
func (l *loops) Loop(ctx context.Context, session acp.SessionID) (router.Loop, error) {
	var loop router.Loop
	err := l.do(ctx, session, func(c *client.Client, run string) error {
		r, err := c.Run(ctx, run)
		if err == nil {
			loop = loopOf(&r)
		}
		return err
	})
	if err != nil {
		loop.ID = l.kept(session)
	}
	return loop, err
}

// kept is the run of a session that has a keeper now; empty when it has none.
func (l *loops) kept(session acp.SessionID) string {
	dirs, err := keeper.Runs(l.home)
	if err != nil {
		return ""
	}
	for _, d := range dirs {
		if spec, err := d.Spec(); err == nil && spec.SessionID == string(session) && d.Kept() {
			return spec.RunID
		}
	}
	return ""
}

// Say implements router.Loops.
func (l *loops) Say(ctx context.Context, session acp.SessionID, text string) error {
	return l.do(ctx, session, func(c *client.Client, run string) error { return c.Say(ctx, run, text) })
}

// Steer implements router.Loops.
func (l *loops) Steer(ctx context.Context, session acp.SessionID, verb string) error {
	return l.do(ctx, session, func(c *client.Client, run string) error { return c.Steer(ctx, verb, run) })
}

// loopOf is a run as the router knows it.
func loopOf(r *controlplane.Run) router.Loop {
	l := router.Loop{
		ID: r.RunID, Agent: r.Agent, Model: r.Model, Sandbox: r.Driver, State: r.State, Reason: r.Reason, Over: r.StoppedAt != nil,
		Iteration: r.Iteration, Tokens: r.Usage.Total, Cost: r.Usage.Cost,
	}
	if r.Until > 0 {
		l.Until = time.UnixMilli(r.Until)
	}
	return l
}

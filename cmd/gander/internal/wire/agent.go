package wire

import (
	"context"
	"fmt"
	"os"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
)

// testTimeout is how long an agent may take to open a session.
const testTimeout = time.Minute

// OpenAgent opens a session of an agent in a new sandbox of an empty directory.
// The model is closed with it, and when it fails.
func OpenAgent(ctx context.Context, a *cli.App, ag sandbox.Agent, model confine.Model, driver string) (sandbox.AgentSession, func(), error) {
	slow := fmt.Errorf("%s did not open a session within %s; gander agent test %[1]s --log-level debug shows what it says", ag.Name(), testTimeout)
	ctx, stop := context.WithTimeoutCause(ctx, testTimeout, slow)
	defer stop()
	undo := new(cleanup)
	undo.add(func() { _ = model.Close() })
	sess, err := tryAgent(ctx, a, ag, model, driver, undo)
	if err == nil {
		return sess, undo.run, nil
	}
	undo.run()
	if context.Cause(ctx) == slow {
		err = slow
	}
	return nil, nil, err
}

func tryAgent(ctx context.Context, a *cli.App, ag sandbox.Agent, model confine.Model, driver string, undo *cleanup) (sandbox.AgentSession, error) {
	dir, err := os.MkdirTemp("", "gander-test-")
	if err != nil {
		return nil, fmt.Errorf("making a project to test with: %w; %s", err, cli.TemporaryAdvice)
	}
	undo.add(func() { Remove(a, dir) })
	in, closeSandbox, err := OpenSandbox(ctx, a, Place{
		Driver: driver, CWD: dir, Name: "test-" + RandomName(), Purpose: "test",
		Labels: map[string]string{"agent": ag.Name(), "program": sandbox.ProgramOf(ag)},
		Mounts: ag.Mounts(), links: sandbox.HomeLinksOf(ag), Doors: []sandbox.Door{{Name: confine.ModelDoor, Dial: model.Dial}},
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

// cleanup is what is to be undone, the last first.
type cleanup []func()

func (c *cleanup) add(f func()) { *c = append(*c, f) }

func (c *cleanup) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
}

// silent is an acp.Client for an agent that is not prompted.
type silent struct{}

func (silent) SessionUpdate(context.Context, *acp.SessionNotification) error { return nil }

func (silent) RequestPermission(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	return acp.CancelledOutcome(), nil
}

package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/inside/supervise"
)

// place is where commands run: a supervisor that is started when the first command
// needs it, and again after it was killed.
type place struct {
	driver *local.Driver

	// mu guards the fields below.
	mu     sync.Mutex
	box    sandbox.Sandbox
	closed bool
	starts int
}

// start starts a command. A supervisor that has ended since is replaced, once.
func (p *place) start(ctx context.Context, cmd sandbox.Command) (supervise.Process, error) {
	for range 2 {
		box, err := p.open(ctx, cmd.Dir)
		if err != nil {
			return nil, err
		}
		proc, err := box.Start(ctx, cmd)
		if errors.Is(err, sandbox.ErrGone) {
			_ = box.Close()
			continue
		}
		if err != nil {
			return nil, err
		}
		held, ok := proc.(supervise.Process)
		if !ok {
			return nil, fmt.Errorf("the supervisor gave a %T", proc)
		}
		return held, nil
	}
	return nil, sandbox.ErrGone
}

// open gives the supervisor that lives, or a new one.
func (p *place) open(ctx context.Context, dir string) (sandbox.Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if p.box != nil && !ended(p.box.Done()) {
		return p.box, nil
	}
	p.starts++
	id := "shell-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(p.starts)
	box, err := p.driver.Create(ctx, sandbox.Spec{ID: id, WorkingDir: dir})
	if err != nil {
		return nil, fmt.Errorf("starting the supervisor of commands: %w", err)
	}
	p.box = box
	return box, nil
}

// abandon ends a supervisor that does not answer, and with it what it ran. The next
// command gets a new one.
func (p *place) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.box != nil {
		_ = p.box.Close()
	}
}

func (p *place) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.box == nil {
		return nil
	}
	return p.box.Close()
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

package supervise

import (
	"context"
	"fmt"
	"io"
	"sync"

	"gander.dev/gander/sandbox"
)

// process is the host's handle of a command. It implements sandbox.Process.
type process struct {
	host    *Host
	id      uint64
	pid     int
	streams streams
	once    sync.Once
	exited  chan struct{}
	status  sandbox.ExitStatus // set before exited is closed
	ended   sync.Once
	gone    chan struct{} // nothing is left of it
}

func (p *process) PID() int              { return p.pid }
func (p *process) Stdin() io.WriteCloser { return p.streams.in() }
func (p *process) Stdout() io.Reader     { return p.streams.out() }
func (p *process) Stderr() io.Reader     { return p.streams.err() }

func (p *process) exit(s sandbox.ExitStatus) {
	p.once.Do(func() {
		p.status = s
		close(p.exited)
	})
}

func (p *process) Signal(ctx context.Context, name string) error {
	if err := p.host.ctl.call(ctx, "signal", processParams{Process: p.id, Signal: name}, nil); err != nil {
		return fmt.Errorf("sending %s to process %d: %w", name, p.pid, err)
	}
	return nil
}

func (p *process) Kill(ctx context.Context) error {
	if err := p.host.ctl.call(ctx, "kill", processParams{Process: p.id}, nil); err != nil {
		return fmt.Errorf("killing process %d and what it started: %w", p.pid, err)
	}
	return nil
}

func (p *process) Wait(ctx context.Context) (sandbox.ExitStatus, error) {
	select {
	case <-p.exited:
		return p.status, nil
	case <-ctx.Done():
		return sandbox.ExitStatus{}, context.Cause(ctx)
	case <-p.host.done:
	}
	select {
	case <-p.exited: // the last event before the end
		return p.status, nil
	default:
		return sandbox.ExitStatus{}, fmt.Errorf("waiting for process %d: %w", p.pid, sandbox.ErrGone)
	}
}

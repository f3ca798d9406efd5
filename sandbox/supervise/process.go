package supervise

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/yamux"

	"gander.dev/gander/sandbox"
)

// process is the host's handle of a command. It implements sandbox.Process.
type process struct {
	host   *Host
	id     uint64
	pid    int
	stdio  *yamux.Stream
	stderr *yamux.Stream
	stdin  *stdinPipe
	once   sync.Once
	exited chan struct{}
	status sandbox.ExitStatus // set before exited is closed
	ended  sync.Once
	gone   chan struct{} // nothing is left of it
}

func (p *process) PID() int              { return p.pid }
func (p *process) Stdin() io.WriteCloser { return p.stdin }
func (p *process) Stdout() io.Reader     { return p.stdio }
func (p *process) Stderr() io.Reader     { return p.stderr }

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

// stdinPipe is the writing direction of a stdio stream.
type stdinPipe struct {
	stream *yamux.Stream

	// mu guards refused: nobody inside can read what is written.
	mu      sync.Mutex
	refused bool
}

func (s *stdinPipe) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
}

func (s *stdinPipe) Write(b []byte) (int, error) {
	s.mu.Lock()
	refused := s.refused
	s.mu.Unlock()
	if refused {
		return 0, io.ErrClosedPipe
	}
	return s.stream.Write(b)
}

// Close is end of file for the command; its output goes on.
func (s *stdinPipe) Close() error { return s.stream.Close() }

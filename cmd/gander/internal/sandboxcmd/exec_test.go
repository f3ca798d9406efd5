package sandboxcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
)

// undying is a sandbox with a command whose children do not die and hold its streams.
type undying struct {
	sandbox.Sandbox
	kill   func() error
	exited chan struct{} // the command has
	closed chan struct{}
	once   sync.Once
}

func (u *undying) Info() sandbox.Info { return sandbox.Info{} }

func (u *undying) Start(context.Context, sandbox.Command) (sandbox.Process, error) { return u, nil }

func (u *undying) Close() error {
	u.once.Do(func() { close(u.closed) })
	return nil
}

func (u *undying) PID() int { return 2 }

func (u *undying) Stdin() io.WriteCloser {
	_, w := io.Pipe()
	return w
}

func (u *undying) Stdout() io.Reader { return u }

func (u *undying) Stderr() io.Reader { return u }

func (u *undying) Read([]byte) (int, error) {
	<-u.closed
	return 0, io.EOF
}

func (u *undying) Signal(context.Context, string) error { return nil }

func (u *undying) Kill(context.Context) error { return u.kill() }

func (u *undying) Wait(context.Context) (sandbox.ExitStatus, error) {
	select {
	case <-u.exited:
		return sandbox.ExitStatus{Code: 3}, nil
	case <-u.closed:
		return sandbox.ExitStatus{}, sandbox.ErrGone
	}
}

// What a command left and nothing kills ends with the sandbox, and so does the waiting.
func TestExecClosesWhatDoesNotDie(t *testing.T) {
	fails := func() error { return errors.New("some processes do not die") }
	hangs := func() error { select {} }
	for _, tt := range []struct {
		name   string
		kill   func() error
		ended  bool // the command has
		signal bool
	}{
		{"the kill fails", fails, true, false},
		{"a signal while it is killed", hangs, true, true},
		{"a command that signals do not end", fails, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := &undying{kill: tt.kill, exited: make(chan struct{}), closed: make(chan struct{})}
			if tt.ended {
				close(u.exited)
			}
			s := &cli.Signals{End: func() {}, Exit: func(int) {}}
			a := &cli.App{Stdio: cli.Stdio{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, Config: &config.Config{}, Log: slog.New(slog.DiscardHandler), Signals: s}
			done := make(chan error, 1)
			go func() { done <- pass(t.Context(), a, &confine.Place{Sandbox: u}, []string{"true"}) }()
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for late := time.After(20 * time.Second); ; {
				select {
				case <-tick.C:
					if tt.signal {
						s.Deliver(os.Interrupt)
					}
					continue
				case <-late:
					t.Fatal("it waits on")
				case <-done:
				}
				break
			}
			select {
			case <-u.closed:
			default:
				t.Error("the sandbox is not closed")
			}
		})
	}
}

// full is a sandbox in which nothing more can be started.
type full struct{ sandbox.Sandbox }

func (full) Info() sandbox.Info { return sandbox.Info{} }

func (full) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, syscall.EAGAIN
}

func (full) Exceeded(context.Context) []string { return []string{"policy.limits.processes is too low"} }

// Which bound keeps a command from starting is said, and not the system's error alone.
func TestExecSaysWhichBoundIsMet(t *testing.T) {
	var said bytes.Buffer
	a := &cli.App{Stdio: cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: &said}, Config: &config.Config{}}
	err := pass(t.Context(), a, &confine.Place{Sandbox: full{}}, []string{"true"})
	if !errors.Is(err, syscall.EAGAIN) || said.String() != "gander: policy.limits.processes is too low\n" {
		t.Errorf("%v, and said %q", err, said.String())
	}
}

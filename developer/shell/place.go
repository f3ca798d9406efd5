package shell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/inside/supervise"
)

// place starts commands: each below a supervisor that is started when a command needs it,
// and again after it was killed. Where rules are kept there is one for each directory that
// has its own, else one for all.
type place struct {
	driver *local.Driver
	log    *slog.Logger
	// keep says that the kernel keeps the rules of the directory that a command runs in, need
	// that nothing runs without, and own is the path of the person's own rules.
	keep, need bool
	own        string

	// mu guards the fields below.
	mu     sync.Mutex
	rooms  map[string]*room // by directory, and version of its rules; "" is that without rules
	closed bool
	starts int
}

// room is a supervisor.
type room struct {
	box     sandbox.Sandbox
	running int // commands, also those that only left something in the background
	used    time.Time
}

// maxIdle bounds the supervisors that are kept although nothing runs below them.
const maxIdle = 8

// start starts a command. A supervisor that has ended since is replaced, once. The caller
// leaves the room when nothing of the command is left.
func (p *place) start(ctx context.Context, cmd sandbox.Command) (supervise.Process, *room, error) {
	for range 2 {
		r, err := p.enter(ctx, cmd.Dir)
		if err != nil {
			return nil, nil, err
		}
		proc, err := r.box.Start(ctx, cmd)
		if held, ok := proc.(supervise.Process); ok && err == nil {
			return held, r, nil
		}
		p.leave(r)
		if errors.Is(err, sandbox.ErrGone) {
			_ = r.box.Close()
			continue
		}
		if err == nil {
			err = fmt.Errorf("the supervisor gave a %T", proc)
		}
		return nil, nil, err
	}
	return nil, nil, sandbox.ErrGone
}

// warm starts the supervisor for a directory, unless it lives.
func (p *place) warm(ctx context.Context, dir string) error {
	r, err := p.enter(ctx, dir)
	if err == nil {
		p.leave(r)
	}
	return err
}

// enter gives the supervisor for a directory that lives, or a new one.
func (p *place) enter(ctx context.Context, dir string) (*room, error) {
	root, err := p.rootOf(dir)
	if err != nil {
		return nil, err
	}
	key := root
	if root != "" {
		key += version(root, p.own)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	r := p.rooms[key]
	if r == nil || ended(r.box.Done()) {
		box, err := p.open(ctx, root, dir)
		if err != nil {
			return nil, err
		}
		if r != nil {
			_ = r.box.Close()
		}
		r = &room{box: box}
		p.rooms[key] = r
	}
	r.running++
	r.used = time.Now()
	p.forget()
	return r, nil
}

// rootOf returns the directory whose rules are kept for commands in dir; empty for none. The
// root of the file system has none of its own: rules such as **/secrets.* would close the
// libraries of the machine.
func (p *place) rootOf(dir string) (string, error) {
	switch top := filepath.Dir(dir) == dir; {
	case p.keep && p.need && top:
		return "", fmt.Errorf("no command runs in %s, for whose .gooseignore the kernel is not asked; give another working directory, or start the server with --enforce auto", dir)
	case !p.keep || top:
		return "", nil
	}
	return filepath.EvalSymlinks(dir)
}

// open starts a supervisor. p.mu is held.
func (p *place) open(ctx context.Context, root, dir string) (sandbox.Sandbox, error) {
	p.starts++
	spec := sandbox.Spec{ID: "shell-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(p.starts), WorkingDir: dir}
	if root != "" {
		spec.WorkingDir = root
		spec.Rules = rulesOnly(p.own, func(d sandbox.Denial) {
			p.log.Info("a command was kept from a file", "path", d.Path, "operation", d.Operation, "pid", d.PID, "rule", d.Rule)
		})
	}
	box, err := p.driver.Create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("starting the supervisor of commands: %w", err)
	}
	if root != "" && box.Info().Enforcement.Closed != Means {
		_ = box.Close()
		return nil, errors.New("the system does not keep .gooseignore for commands here, so none is run; --enforce off runs them without")
	}
	return box, nil
}

// leave is called when nothing of a command is left.
func (p *place) leave(r *room) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.running--
	p.forget()
}

// forget ends supervisors that have nothing to do beyond the bound, the longest idle first.
// p.mu is held.
func (p *place) forget() {
	for {
		idle, oldest := 0, ""
		for root, r := range p.rooms {
			if r.running > 0 {
				continue
			}
			if idle++; idle == 1 || r.used.Before(p.rooms[oldest].used) {
				oldest = root
			}
		}
		if idle <= maxIdle {
			return
		}
		_ = p.rooms[oldest].box.Close()
		delete(p.rooms, oldest)
	}
}

// abandon ends a supervisor that does not answer, and with it what it ran. The next
// command gets a new one.
func (p *place) abandon(r *room) { _ = r.box.Close() }

func (p *place) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, r := range p.rooms {
		errs = append(errs, r.box.Close())
	}
	return errors.Join(errs...)
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// Command is a command line to run.
type Command struct {
	// Line is what the shell is given.
	Line string
	// Dir is where it runs; empty means Options.WorkingDir, to which it is relative.
	Dir string
	// SessionID is the session that owns what the command leaves; it becomes
	// AGENT_SESSION_ID. It may be empty.
	SessionID string
	// Env overrides variables of the environment.
	Env []string
	// Timeout ends the command, with everything it started; 0 means never.
	Timeout time.Duration
	// Output receives what is printed, as it comes: a line without its end, or a part
	// of one. It must not block for long. It is not called any more when Run returns.
	Output func(stream, text string)
	// Split asks for the streams apart too.
	Split bool
	// Limits say how much of the output is shown; the zero value means 100 lines and
	// 40,000 bytes.
	Limits Limits
}

// Result is how a command ended.
type Result struct {
	Output
	// Code is the exit code; 128+n when a signal ended the shell. Signal names it.
	Code   int
	Signal string
	// TimedOut says that the command was ended because of Command.Timeout.
	TimedOut bool
	// Drained is false when something still held the streams and its output was
	// not awaited any longer.
	Drained bool
	// Left is what runs on in the background, until the Runner closes.
	Left []supervise.Member
	// LeftID is the id under which what runs on is listed and killed.
	LeftID   string
	Duration time.Duration
}

// SpawnError is returned when a command could not be started.
type SpawnError struct{ Err error }

func (e *SpawnError) Error() string { return e.Err.Error() }
func (e *SpawnError) Unwrap() error { return e.Err }

// Run runs a command to its end. What it left in the background runs on; when ctx
// ends nothing does, and the error is ctx's cause. Any other error is a
// *SpawnError, ErrClosed or sandbox.ErrGone. A command that fails is no error.
func (r *Runner) Run(ctx context.Context, c Command) (Result, error) {
	if err := r.enter(); err != nil {
		return Result{}, err
	}
	defer r.wg.Done()
	ctx, stop := r.within(ctx)
	defer stop()
	begin := time.Now()
	j, err := r.launch(ctx, c)
	if err != nil {
		r.log.Warn("a command could not be started", "session", c.SessionID, "error", err)
		return Result{}, err
	}
	res, err := j.finish(ctx, c)
	res.Duration = time.Since(begin)
	r.log.Info("a command has ended", "session", c.SessionID, "pid", j.process.PID(), "code", res.Code, "timedOut", res.TimedOut,
		"left", len(res.Left), "bytes", res.Merged.Bytes, "duration", res.Duration, "error", err)
	return res, err
}

// Warm starts what commands in the working directory run below, in the background, so that
// the first of them need not wait for it.
func (r *Runner) Warm() {
	if r.enter() != nil {
		return
	}
	go func() {
		defer r.wg.Done()
		dir, err := r.directory("")
		if err == nil {
			err = r.place.warm(r.live, dir)
		}
		if err != nil && r.live.Err() == nil {
			r.log.Debug("the supervisor of commands is not started ahead", "error", err) // the first command says why
		}
	}()
}

// within is ctx that also ends when the Runner closes.
func (r *Runner) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.live, func() { cancel(context.Cause(r.live)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// launch starts a command and reads what it prints.
func (r *Runner) launch(ctx context.Context, c Command) (*Job, error) {
	dir, err := r.directory(c.Dir)
	if err != nil {
		return nil, &SpawnError{err}
	}
	args, startDir := r.shell.command(c.Line, dir)
	env := r.environment(c, r.path.get(ctx, r))
	// A start is not given up half-way: what was started must be known to be ended.
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer cancel()
	cmd := sandbox.Command{Args: args, Env: env, Dir: startDir, NullStdin: true}
	out, err := redirect(&cmd)
	if err != nil {
		return nil, &SpawnError{err}
	}
	p, room, err := r.place.start(starting, cmd)
	if err != nil {
		out.close()
		return nil, &SpawnError{err}
	}
	out.begun(p)
	l := &live{emit: c.Output}
	j := &Job{
		runner: r, session: c.SessionID, line: c.Line, process: p, room: room, outputs: out, began: time.Now(), live: l,
		capture: newCapture(r.spool.file(c.SessionID), c.Split, l), read: make(chan struct{}), over: make(chan struct{}),
	}
	r.readers.Go(j.readAll)
	r.wg.Go(j.follow)
	r.log.Debug("a command has started", "session", c.SessionID, "pid", p.PID(), "shell", r.shell.kind)
	return j, nil
}

// startTime is how long starting may take, the supervisor's own start included.
const startTime = 30 * time.Second

// directory is where a command runs; it must exist.
func (r *Runner) directory(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(r.o.WorkingDir, dir)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("the working directory %s cannot be used: %w; create it, or give another one", dir, errors.Unwrap(err))
	}
	if !st.IsDir() {
		return "", fmt.Errorf("the working directory %s is not a directory; give another one", dir)
	}
	return dir, nil
}

// finish waits for the command, ends it when ctx or its time does, and renders what
// it printed.
func (j *Job) finish(ctx context.Context, c Command) (res Result, err error) {
	defer j.live.stop()
	wait := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
		defer cancel()
	}
	status, err := j.process.Wait(wait)
	switch {
	case err == nil:
		res.Drained = j.drain(ctx)
	case errors.Is(err, errTimeout):
		j.end()
		res.TimedOut = true
		res.Drained = j.drain(ctx)
		status, err = j.process.Wait(ctx)
	}
	if ctx.Err() != nil {
		j.end()
		return res, context.Cause(ctx)
	}
	if err != nil {
		return res, err
	}
	res.Code, res.Signal = status.Code, status.Signal
	if !res.TimedOut {
		res.Left = j.left(ctx)
	}
	res.Output = j.capture.snapshot(c.limits(), !res.Drained)
	if len(res.Left) > 0 {
		res.LeftID = j.runner.adopt(j)
	}
	return res, nil
}

var errTimeout = errors.New("the command's time is over")

func (c Command) limits() Limits {
	if c.Limits == (Limits{}) {
		return defaultLimits
	}
	return c.Limits
}

// drain waits for the rest of the output, but not long when something that runs on
// holds the streams.
func (j *Job) drain(ctx context.Context) bool {
	t := time.NewTimer(j.runner.o.Drain)
	defer t.Stop()
	select {
	case <-j.read:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// left is what runs on when the shell has ended.
func (j *Job) left(ctx context.Context) []supervise.Member {
	if ended(j.process.Gone()) {
		return nil
	}
	members, err := j.process.Members(ctx)
	if err != nil {
		return nil
	}
	return members
}

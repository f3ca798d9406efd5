package loop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/telemetry"
)

const (
	// startTime bounds starting a supervisor and a command, killTime the end of them.
	startTime = time.Minute
	killTime  = 20 * time.Second
	// outputLimit bounds a line that an agent prints, and stderrLimit what is kept of
	// what it complains of, in bytes.
	outputLimit = 16 << 20
	stderrLimit = 8 << 10
)

// SandboxRunner is a Runner that gives each iteration a supervisor of its own.
type SandboxRunner struct {
	// Driver makes the supervisors; within a sandbox it is one that isolates nothing.
	Driver    sandbox.Driver
	Command   AgentCommand
	Workspace string
	// Sweep, where it is not nil, kills what escaped a supervisor that was killed itself.
	Sweep func(context.Context) error
	Log   *slog.Logger

	runs int
}

// Run implements Runner.
func (r *SandboxRunner) Run(ctx context.Context, instruction string, line func([]byte)) (exit telemetry.Exit, err error) {
	r.runs++
	starting, started := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer started()
	sb, err := r.Driver.Create(starting, sandbox.Spec{ID: "iteration-" + strconv.Itoa(r.runs), WorkingDir: r.Workspace})
	if err != nil {
		return exit, fmt.Errorf("starting the supervisor of an iteration: %w", err)
	}
	defer func() {
		ending, ended := context.WithTimeout(context.WithoutCancel(ctx), killTime)
		defer ended()
		left := sb.Close()
		if r.Sweep != nil {
			left = r.Sweep(ending) // which is for what Close could not do
		}
		if left != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", ErrLeft, left))
		}
	}()
	proc, err := sb.Start(starting, sandbox.Command{Args: r.Command.Args, Env: r.Command.Env, Dir: r.Workspace})
	if err != nil {
		return exit, fmt.Errorf("starting the agent: %w", err)
	}
	return follow(ctx, proc, instruction, line)
}

// follow gives a process its instruction, reads what it prints, and returns when it and
// all that it started are gone.
func follow(ctx context.Context, proc sandbox.Process, instruction string, line func([]byte)) (telemetry.Exit, error) {
	var exit telemetry.Exit
	var streams sync.WaitGroup
	streams.Go(func() {
		_, _ = io.WriteString(proc.Stdin(), instruction) // an agent that does not read it ends, and says why
		_ = proc.Stdin().Close()
	})
	streams.Go(func() { readLines(proc.Stdout(), line) })
	words := make(chan string, 1)
	go func() { words <- lastBytes(proc.Stderr()) }() // ends with the process
	status, err := proc.Wait(ctx)
	ending, ended := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer ended()
	left := proc.Kill(ending) // in any case: what it left holds its streams, too
	if left == nil {
		streams.Wait()
		exit.Stderr = <-words
	}
	if ctx.Err() != nil {
		status, err = proc.Wait(ending)
	}
	exit.Code, exit.Signal = status.Code, status.Signal
	return exit, errors.Join(err, left)
}

// readLines gives each line of r to line, without its end, until r ends. Lines that are
// too long are passed over.
func readLines(r io.Reader, line func([]byte)) {
	in := bufio.NewReaderSize(r, 64<<10)
	var held []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(held)+len(part) > outputLimit; !long {
			held = append(held, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !long && len(held) > 0 {
			line(held)
		}
		if err != nil {
			return
		}
		held, long = held[:0], false
		if cap(held) > 1<<20 {
			held = nil // one long line does not hold its memory for good
		}
	}
}

// lastBytes reads r to its end and returns the last of it.
func lastBytes(r io.Reader) string {
	var kept []byte
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		kept = append(kept, buf[:n]...)
		if over := len(kept) - stderrLimit; over > 0 {
			kept = append(kept[:0], kept[over:]...)
		}
		if err != nil {
			return string(kept)
		}
	}
}

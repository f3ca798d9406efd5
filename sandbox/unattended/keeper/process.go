package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/unattended/loop"
)

const (
	maxLine     = 4 << 20 // bytes of a line of the loop's
	maxQueue    = 256     // commands that the loop has not read yet
	maxStderr   = 4 << 10 // bytes of what the loop says last on its stderr
	commandTime = 5 * time.Second
)

// process is a loop that runs in the sandbox.
type process struct {
	p      sandbox.Process
	log    *slog.Logger
	queue  chan loop.Command
	ended  chan struct{} // closed when its output has
	work   sync.WaitGroup
	stderr []byte // the end of it; set when work is done
	orders int64  // that it was sent, see loop.Output; the keeper's mu guards it
}

// startLoop starts the loop inside, which waits to be sent what it is to run.
func startLoop(ctx context.Context, sb sandbox.Sandbox, env []string, log *slog.Logger) (*process, error) {
	exe := sb.Info().Executable
	if exe == "" {
		return nil, errors.New("gander itself is not in the sandbox, and the loop is a part of it; build the images anew with: gander sandbox build")
	}
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{exe, "loop", "run", "--supervised"}, Env: env, Infrastructure: true, Private: true})
	if err != nil {
		return nil, fmt.Errorf("starting the loop in the sandbox: %w", err)
	}
	l := &process{p: p, log: log, queue: make(chan loop.Command, maxQueue), ended: make(chan struct{})}
	l.work.Go(l.write)
	l.work.Go(func() { l.stderr = tail(p.Stderr()) })
	return l, nil
}

// write passes commands on until the loop has ended.
func (l *process) write() {
	defer func() { _ = l.p.Stdin().Close() }()
	out := json.NewEncoder(l.p.Stdin())
	for {
		select {
		case <-l.ended:
			return
		case c := <-l.queue:
			if err := out.Encode(c); err != nil {
				l.log.Debug("the loop does not take commands any more", "err", err)
				return
			}
		}
	}
}

// send queues a command. The error is ErrBusy when the loop has not read so many of them
// that it does not listen.
func (l *process) send(c loop.Command) error {
	select {
	case l.queue <- c:
		return nil
	default:
		return ErrBusy
	}
}

// read passes on what the loop says until its output ends.
func (l *process) read(each func(loop.Output)) {
	defer close(l.ended)
	in := bufio.NewReaderSize(l.p.Stdout(), 64<<10)
	for {
		line, err := readLine(in)
		if err != nil {
			return
		}
		var o loop.Output
		if len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &o); err != nil {
			l.log.Warn("the loop said what cannot be read", "err", err, "bytes", len(line))
			continue
		}
		each(o)
	}
}

// readLine reads a line; one that is longer than any event is empty.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, more, err := in.ReadLine()
		switch {
		case err != nil:
			return nil, err
		case len(line)+len(part) > maxLine:
			long, line = true, nil
		case !long:
			line = append(line, part...)
		}
		if !more {
			return line, nil
		}
	}
}

// tail reads to the end and returns what came last.
func tail(r io.Reader) []byte {
	var last []byte
	buf := make([]byte, maxStderr)
	for {
		n, err := r.Read(buf)
		last = append(last, buf[:n]...)
		last = last[max(0, len(last)-maxStderr):]
		if err != nil {
			return last
		}
	}
}

// outcome is how the loop ended, in words. Its output has ended.
func (l *process) outcome(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	status, err := l.p.Wait(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("the loop has ended with its sandbox: %w", err)
	case status.Signal != "":
		return fmt.Errorf("the loop was ended by the signal %s", status.Signal)
	}
	return fmt.Errorf("the loop has ended with code %d", status.Code)
}

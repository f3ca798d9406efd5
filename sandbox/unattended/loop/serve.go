package loop

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/telemetry"
)

// ServeOptions are what a loop needs that a keeper cannot send. Driver and Parsers are
// needed.
type ServeOptions struct {
	// Driver makes the supervisors of the iterations.
	Driver sandbox.Driver
	// Parsers make the parser of an agent's output, by the agent's name.
	Parsers map[string]func() telemetry.Parser
	Log     *slog.Logger
}

// Serve runs a loop for the keeper that has started this process: commands come in on
// in, the first of which is start, and what the loop has to say goes to out. It returns
// when the loop has ended, or when in does or ctx: a loop without a keeper ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o ServeOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commands := make(chan Command)
	go func() { // ends with in, that is, with the process at the latest
		defer close(commands)
		_ = ReadCommands(in, func(c Command) error {
			select {
			case commands <- c:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	var first Command
	select {
	case c, ok := <-commands:
		if !ok {
			return errors.New("the keeper ended before it said what to run")
		}
		first = c
	case <-ctx.Done():
		return nil
	}
	if first.Type != CommandStart || first.Start == nil {
		return fmt.Errorf("the keeper's first command is %q, not start; gander loop run --supervised is started by gander serve", first.Type)
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	l, err := o.loop(*first.Start, func(m Output) {
		if encoder.Encode(m) != nil {
			cancel() // nobody listens
		}
	})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		for {
			select {
			case c, ok := <-commands:
				if !ok {
					return
				}
				l.Do(c)
			case <-ctx.Done():
				return
			}
		}
	})
	defer wg.Wait()
	defer cancel()
	return l.Run(ctx)
}

// loop makes the loop of a start.
func (o ServeOptions) loop(start Start, output func(Output)) (*Loop, error) {
	parser := o.Parsers[cmp.Or(start.Program, start.Agent)]
	if parser == nil {
		return nil, fmt.Errorf("there is no unattended loop with the agent %q; there is one with each of: %s", start.Agent, strings.Join(slices.Sorted(maps.Keys(o.Parsers)), ", "))
	}
	if len(start.Run.Args) == 0 || start.Workspace == "" {
		return nil, errors.New("a loop needs the agent's command and a workspace")
	}
	meter := telemetry.NewMeter(start.Workspace)
	return New(Options{
		Start: start, Parser: parser, Output: output, Vitals: meter.Vitals, Log: o.Log,
		Runner: &SandboxRunner{Driver: o.Driver, Command: start.Run, Workspace: start.Workspace, Sweep: Sweep, Log: o.Log},
	}), nil
}

// wireLimit bounds a line between keeper and loop, in bytes.
const wireLimit = 16 << 20

// ReadCommands gives the commands on r to f until r ends, or f fails. What is no command
// is passed over.
func ReadCommands(r io.Reader, f func(Command) error) error { return readWire(r, f) }

// ReadOutputs gives what a loop says on r to f until r ends, or f fails. It believes
// nothing: what is no Output is passed over, and a line that is too long is an error.
func ReadOutputs(r io.Reader, f func(Output) error) error { return readWire(r, f) }

func readWire[T any](r io.Reader, f func(T) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), wireLimit)
	for lines.Scan() {
		var m T
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return lines.Err()
}

package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gander.dev/gander/acp"
)

// loopCommand is a slash command in a loop's session.
type loopCommand struct {
	name, hint, description string
	// run returns what to say in the thread.
	run func(ctx context.Context, a *attachment, args string) (string, error)
}

func loopCommands() []loopCommand {
	return []loopCommand{
		{"status", "", "How the loop does", loopStatus},
		{"pause", "", "Begin no further iteration until it is resumed", steer("pause", "The loop pauses after this iteration.")},
		{"resume", "", "Go on with the loop", steer("resume", "The loop goes on.")},
		{"step", "", "One iteration, then pause", steer("step", "The loop does one iteration.")},
		{"cancel", "", "End the running iteration; the loop goes on with the next", steer("cancel", "The running iteration is ended.")},
		{"export", "markdown or json", "Write the thread to a file", exportLoop},
	}
}

// loopCommandNamed is the command of a name; nil when it is for the loop.
func loopCommandNamed(name string) *loopCommand {
	own := loopCommands()
	if i := slices.IndexFunc(own, func(c loopCommand) bool { return c.name == name }); i >= 0 {
		return &own[i]
	}
	return nil
}

func loopCommandList() []acp.AvailableCommand {
	var list []acp.AvailableCommand
	for _, c := range loopCommands() {
		list = append(list, acp.AvailableCommand{Name: c.name, Hint: c.hint, Description: c.description})
	}
	return list
}

// obey carries out a command and returns what to say. Nothing of it is written into
// the thread, which is the loop's.
func (a *attachment) obey(ctx context.Context, c *loopCommand, args string) string {
	if args != "" && c.hint == "" {
		return fmt.Sprintf("/%s: it takes no argument", c.name)
	}
	text, err := c.run(ctx, a, args)
	if err != nil {
		return fmt.Sprintf("/%s: %s", c.name, errorText(err))
	}
	return text
}

// steer is a command that changes what the loop does.
func steer(verb, done string) func(context.Context, *attachment, string) (string, error) {
	return func(ctx context.Context, a *attachment, _ string) (string, error) {
		return done, a.r.opts.Loops.Steer(ctx, a.id, verb)
	}
}

func loopStatus(ctx context.Context, a *attachment, _ string) (string, error) {
	loop, err := a.r.opts.Loops.Loop(ctx, a.id)
	if errors.Is(err, ErrNoLoop) {
		return "There is no run of this session any more; the thread is what is left of it. " + goOn, nil
	}
	if err != nil {
		return "", err
	}
	var out strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "- %s: %s\n", name, fmt.Sprintf(format, args...))
	}
	line("loop", "`%s`", loop.ID)
	line("state", "%s", loop.String())
	line("agent", "%s", loop.Agent)
	if loop.Sandbox != "" {
		line("sandbox", "%s", loop.Sandbox)
	}
	if loop.Model != "" {
		line("model", "`%s`", loop.Model)
	}
	line("iteration", "%d", loop.Iteration)
	if loop.Tokens > 0 {
		line("tokens", "%d", loop.Tokens)
	}
	if loop.Cost > 0 {
		line("cost", "%.4f", loop.Cost)
	}
	return out.String(), nil
}

// exportLoop writes the thread to a file of gander's own.
func exportLoop(ctx context.Context, a *attachment, args string) (string, error) {
	return a.r.export(ctx, a.id, args)
}

package show

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// Prompter asks a person. Questions go to stderr: stdout is for what was done.
type Prompter struct {
	in  io.Reader
	buf *bufio.Reader
	out io.Writer
}

func (p *Prompter) Say(text string) { fmt.Fprintln(p.out, text) }

// Ask asks until check, which may be nil, takes the answer. An empty answer is
// the known one.
func (p *Prompter) Ask(ctx context.Context, question, known string, check func(string) error) (string, error) {
	for range tries {
		fmt.Fprint(p.out, question)
		if known != "" {
			fmt.Fprintf(p.out, " [%s]", known)
		}
		fmt.Fprint(p.out, ": ")
		answer, err := p.line(ctx)
		if err != nil {
			return "", err
		}
		answer = cmp.Or(answer, known)
		if answer == "" {
			continue
		}
		if check == nil {
			return answer, nil
		}
		if err = check(answer); err == nil {
			return answer, nil
		}
		p.Say("  " + cli.MessageOf(err))
	}
	return "", cli.UsageError("no usable answer to %q; run gander setup again, or use --non-interactive", question)
}

func (p *Prompter) Yes(ctx context.Context, question string, otherwise bool) (bool, error) {
	known := "no"
	if otherwise {
		known = "yes"
	}
	answer, err := p.Ask(ctx, question, known, OneOf([]string{"yes", "no", "y", "n"}))
	return strings.HasPrefix(answer, "y"), err
}

// line reads a line. The reading goes on when ctx ends; the process does not.
func (p *Prompter) line(ctx context.Context) (string, error) {
	return p.await(ctx, func() (string, error) {
		line, err := p.buf.ReadString('\n')
		if err == io.EOF && line != "" {
			err = nil
		}
		return strings.TrimSpace(line), err
	})
}

// Secret reads a line that the terminal does not show.
func (p *Prompter) Secret(ctx context.Context, question string) (string, error) {
	f, ok := p.in.(*os.File)
	if !ok {
		return "", cli.UsageError("a key is typed on a terminal only")
	}
	before, err := term.GetState(int(f.Fd()))
	if err != nil {
		return "", fmt.Errorf("hiding what is typed: %w", err)
	}
	for range tries {
		fmt.Fprint(p.out, question, ": ")
		key, err := p.await(ctx, func() (string, error) {
			raw, err := term.ReadPassword(int(f.Fd()))
			return strings.TrimSpace(string(raw)), err
		})
		p.Say("")
		if err != nil {
			_ = term.Restore(int(f.Fd()), before) // the reading may still hide
			return "", err
		}
		if key != "" {
			return key, nil
		}
	}
	return "", cli.UsageError("no key was typed; run gander setup again")
}

func (p *Prompter) await(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() { text, err := read(); done <- result{text, err} }()
	select {
	case r := <-done:
		if r.err == io.EOF {
			return "", cli.UsageError("the input ended before setup was done; nothing was written")
		}
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func NewPrompter(in io.Reader, out io.Writer) *Prompter {
	return &Prompter{in: in, buf: bufio.NewReader(in), out: out}
}

// tries bounds how often a question is repeated.
const tries = 5

func OneOf(values []string) func(string) error {
	return func(s string) error {
		if slices.Contains(values, s) {
			return nil
		}
		return fmt.Errorf("choose one of %s", strings.Join(values, ", "))
	}
}

// PromptText is the prompt from the arguments, else from stdin.
func PromptText(a *cli.App, args []string) (string, error) {
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if cli.IsTerminal(a.In) {
			return "", cli.UsageError(`no prompt; give it as an argument or on stdin, as in: gander run "what is this project?"`)
		}
		raw, err := io.ReadAll(a.In)
		if err != nil {
			return "", fmt.Errorf("reading the prompt from stdin: %w; give it as an argument", err)
		}
		text = string(raw)
	}
	if strings.TrimSpace(text) == "" {
		return "", cli.UsageError("the prompt is empty; give it as an argument or on stdin")
	}
	return text, nil
}

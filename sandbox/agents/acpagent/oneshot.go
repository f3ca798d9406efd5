package acpagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// PromptPlace is replaced by the prompt in the arguments of a program that answers one prompt.
const PromptPlace = "{prompt}"

const (
	// longestArgument bounds a prompt that is an argument: Linux takes 128 KiB in one.
	longestArgument = 100 << 10
	// longestPrint bounds what is passed on of an answer.
	longestPrint = 1 << 20
)

// A OneShot is a conversation with a program that speaks no ACP: it is started for each prompt,
// which is its standard input, or one of its arguments, and its answer is what it prints. It
// implements sandbox.AgentSession.
type OneShot struct {
	opts   Options
	params sandbox.SessionParams
	sb     sandbox.Sandbox
	done   chan struct{}

	// mu guards what follows.
	mu        sync.Mutex
	running   sandbox.Process
	cancelled bool
	closed    bool
	told      bool // the instructions were in a prompt
}

// NewOneShot returns a conversation in sb. Nothing is started before the first prompt.
func NewOneShot(sb sandbox.Sandbox, p sandbox.SessionParams, o Options) *OneShot {
	return &OneShot{opts: o, params: p, sb: sb, done: make(chan struct{})}
}

// ID implements sandbox.AgentSession.
func (s *OneShot) ID() string { return "one-shot" }

// Resumed implements sandbox.AgentSession: the program remembers nothing.
func (s *OneShot) Resumed() bool { return false }

// State implements sandbox.AgentSession.
func (s *OneShot) State() sandbox.AgentState { return sandbox.AgentState{} }

// Prompt implements sandbox.AgentSession. What the program has started ends with it.
func (s *OneShot) Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	text, err := s.text(prompt)
	if err != nil {
		return nil, err
	}
	proc, err := s.start(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("starting %s in its sandbox: %w", s.opts.Name, err)
	}
	stderr := newTail(proc.Stderr(), s.opts.Log)
	printed := make(chan error, 1)
	go func() { printed <- s.relay(ctx, proc.Stdout()) }()
	status, err := proc.Wait(ctx)
	var relayed error
	ended := false
	select {
	case relayed = <-printed:
		ended = true
	case <-time.After(lastFrames): // something that it left holds its streams open
	case <-ctx.Done():
	}
	kill, stop := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer stop()
	failed := proc.Kill(kill)
	if !ended {
		relayed = <-printed
	}
	stderr.wait(lastFrames)
	s.mu.Lock()
	cancelled := s.cancelled
	s.running = nil
	s.mu.Unlock()
	words := stderr.String()
	if words != "" {
		words = "; its last words: " + words
	}
	switch {
	case cancelled || ctx.Err() != nil:
		return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
	case err != nil || failed != nil:
		return nil, fmt.Errorf("%s ended: %w%s", s.opts.Name, errors.Join(err, failed), words)
	case status.Signal != "":
		return nil, fmt.Errorf("%s was ended by signal %s%s", s.opts.Name, status.Signal, words)
	case status.Code != 0:
		return nil, fmt.Errorf("%s exited with code %d%s", s.opts.Name, status.Code, words)
	}
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}, relayed
}

// text returns the prompt as a program reads it.
func (s *OneShot) text(prompt []acp.ContentBlock) (string, error) {
	var parts []string
	for _, raw := range prompt {
		switch block := acp.ParseContentBlock(raw); {
		case block.Type == "text":
			parts = append(parts, block.Text)
		case block.Type == "resource_link":
			parts = append(parts, block.URI)
		case block.Resource != nil && block.Resource.Text != "":
			parts = append(parts, block.URI+":\n"+block.Resource.Text)
		default:
			return "", fmt.Errorf("%s takes text only, and the prompt has a block of the type %q; leave that out, or choose another agent", s.opts.Name, block.Type)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.Instructions != "" && !s.told {
		s.told = true
		parts = append([]string{s.opts.Instructions}, parts...)
	}
	return strings.Join(parts, "\n\n"), nil
}

// start starts the program and gives it the prompt.
func (s *OneShot) start(ctx context.Context, prompt string) (sandbox.Process, error) {
	cmd := s.opts.Command
	cmd.Args = make([]string, len(s.opts.Command.Args))
	for i, arg := range s.opts.Command.Args {
		cmd.Args[i] = strings.ReplaceAll(arg, PromptPlace, prompt)
		cmd.NullStdin = cmd.NullStdin || strings.Contains(arg, PromptPlace)
	}
	if cmd.NullStdin && len(prompt) > longestArgument {
		return nil, fmt.Errorf("the prompt has %d KiB, and an argument holds %d; take %s out of its command, so that it reads the prompt from its standard input", len(prompt)>>10, longestArgument>>10, PromptPlace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the conversation is closed")
	}
	proc, err := s.sb.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	s.running, s.cancelled = proc, false
	go func() {
		if !cmd.NullStdin {
			_, _ = io.WriteString(proc.Stdin(), prompt) // it need not read
		}
		_ = proc.Stdin().Close()
	}()
	return proc, nil
}

// relay passes on what the program prints, as it comes, in whole characters and without orders to
// a terminal.
func (s *OneShot) relay(ctx context.Context, out io.Reader) error {
	buf := make([]byte, 32<<10)
	var held []byte // the beginning of a character or of an order to a terminal
	room, full := longestPrint, false
	var failed error
	for {
		n, err := out.Read(buf)
		text := append(held, buf[:n]...)
		keep := 0
		if err == nil {
			keep = cutOff(text)
		}
		whole := ansi.Strip(strings.ToValidUTF8(string(text[:len(text)-keep]), "�"))
		held = append([]byte(nil), text[len(text)-keep:]...)
		switch {
		case full:
			whole = ""
		case len(whole) > room:
			whole = strings.ToValidUTF8(whole[:room], "") + fmt.Sprintf("\n[%s has printed more than %d KiB; the rest is left out]\n", s.opts.Name, longestPrint>>10)
			full = true
		}
		room -= len(whole)
		if whole != "" && failed == nil {
			failed = s.params.Client.SessionUpdate(ctx, &acp.SessionNotification{Update: acp.MessageChunk(acp.AgentMessageChunk, "", whole)})
		}
		if err != nil {
			return failed
		}
	}
}

// order matches an order to a terminal whose end has not come.
var order = regexp.MustCompile(`\x1b(\[[0-9:;?]{0,32})?$`)

// cutOff returns how many bytes at the end begin a character, or an order to a terminal, that is not complete.
func cutOff(text []byte) int {
	if at := order.FindIndex(text); at != nil {
		return at[1] - at[0]
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Cancel implements sandbox.AgentSession.
func (s *OneShot) Cancel() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = true
	if proc := s.running; proc != nil {
		go func() {
			ctx, stop := context.WithTimeout(context.Background(), killTime)
			defer stop()
			_ = proc.Kill(ctx) // Prompt says how it ended
		}()
	}
	return nil
}

// SetMode implements sandbox.AgentSession.
func (s *OneShot) SetMode(context.Context, string) error {
	return fmt.Errorf("%s has no modes", s.opts.Name)
}

// SetConfigOption implements sandbox.AgentSession.
func (s *OneShot) SetConfigOption(context.Context, string, json.RawMessage) ([]acp.ConfigOption, error) {
	return nil, fmt.Errorf("%s has no options", s.opts.Name)
}

// Done implements sandbox.AgentSession. The program ends with each prompt, and the conversation at Close.
func (s *OneShot) Done() <-chan struct{} { return s.done }

// Err implements sandbox.AgentSession.
func (s *OneShot) Err() error { return nil }

// Close implements sandbox.AgentSession.
func (s *OneShot) Close() error {
	s.mu.Lock()
	proc, closed := s.running, s.closed
	s.closed, s.cancelled = true, true
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.done)
	if proc == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), killTime)
	defer stop()
	return proc.Kill(ctx)
}

package show

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
)

// asked is what is shown of the tool call that a permission is about.
type asked struct {
	Title   string          `json:"title"`
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"`
}

// RequestPermission implements acp.Client by the --approve policy.
func (c *Terminal) RequestPermission(ctx context.Context, req *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	var call asked
	_ = json.Unmarshal(req.ToolCall, &call) // an unreadable call is asked about without a title
	resp := c.decide(ctx, &call, req.Options)
	if c.Flags.Format == FormatJSON {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.printValue(map[string]any{"permission": map[string]any{"toolCall": req.ToolCall, "outcome": resp.Outcome}})
	}
	return resp, nil
}

func (c *Terminal) decide(ctx context.Context, call *asked, options []acp.PermissionOption) *acp.RequestPermissionResponse {
	switch c.Flags.Approve {
	case ApproveAll:
		return c.allow(options)
	case approveReads:
		if call.Kind == "read" || call.Kind == "search" {
			return c.allow(options)
		}
	case ApproveAsk:
		if c.person {
			return c.ask(ctx, call, options)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = fmt.Sprintf("--approve %s refused what the agent asked to do; allow more with --approve ask (on a terminal) or all", c.Flags.Approve)
	if c.Flags.Approve == ApproveAsk {
		c.denied = `the agent asked for a permission and nobody could be asked, as stdin is no terminal; give --approve reads or all, or answer "Always allow" on a terminal once`
	}
	c.progress("✗ not allowed: " + cli.OneLine(call.Title))
	return Choose(options, "reject_once", "reject_always")
}

func (c *Terminal) allow(options []acp.PermissionOption) *acp.RequestPermissionResponse {
	return Choose(options, "allow_once", "allow_always")
}

// ask asks the person, again when the answer is none of the options. What is not
// an answer allows nothing.
func (c *Terminal) ask(ctx context.Context, call *asked, options []acp.PermissionOption) *acp.RequestPermissionResponse {
	c.lines.turn.Lock() // one question at a time
	defer c.lines.turn.Unlock()
	options = Ordered(options)
	for range 3 {
		c.mu.Lock()
		c.question(call, options)
		c.mu.Unlock()
		text, err := c.lines.next(ctx)
		if ctx.Err() != nil {
			return acp.CancelledOutcome()
		}
		if err != nil {
			break
		}
		if n := AnswerOf(text, options); n >= 0 {
			if strings.HasPrefix(options[n].Kind, "reject") {
				c.deny("you did not allow what the agent asked to do; run it again to answer otherwise, or allow it with --approve reads or all")
			}
			return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: options[n].OptionID}}
		}
	}
	c.deny("the agent asked for a permission and got no answer that is one of its options; run it again and answer with a letter or a number, or give --approve reads or all")
	return Choose(options, "reject_once", "reject_always")
}

// The kinds of options in the order in which people are asked, and the letters that answer.
var kinds = []struct{ kind, letter string }{
	{"allow_once", "y"}, {"allow_always", "a"}, {"reject_once", "n"}, {"reject_always", "d"},
}

// Ordered returns options in the order in which people are asked: to allow once comes first.
func Ordered(options []acp.PermissionOption) []acp.PermissionOption {
	rank := func(o acp.PermissionOption) int {
		for i, k := range kinds {
			if o.Kind == k.kind {
				return i
			}
		}
		return len(kinds)
	}
	options = slices.Clone(options)
	slices.SortStableFunc(options, func(a, b acp.PermissionOption) int { return cmp.Compare(rank(a), rank(b)) })
	return options
}

// LetterOf returns what answers a question with option i: the letter of its kind, for the
// first of a kind, else its number.
func LetterOf(options []acp.PermissionOption, i int) string {
	for _, k := range kinds {
		first := slices.IndexFunc(options, func(o acp.PermissionOption) bool { return o.Kind == k.kind })
		if first == i {
			return k.letter
		}
	}
	return strconv.Itoa(i + 1)
}

// AnswerOf returns the option that an answer means, by its letter, its number, or yes and
// no; -1 for none.
func AnswerOf(text string, options []acp.PermissionOption) int {
	text = strings.ToLower(strings.TrimSpace(text))
	switch text {
	case "yes":
		text = "y"
	case "no":
		text = "n"
	}
	for i := range options {
		if text == LetterOf(options, i) || text == strconv.Itoa(i+1) {
			return i
		}
	}
	return -1
}

// OptionName returns an option's name for people.
func OptionName(o *acp.PermissionOption) string {
	return cli.Printable(cli.OneLineOf(strings.ReplaceAll(o.Name, "_", " ")))
}

// deny notes why a permission was not given.
func (c *Terminal) deny(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = why
}

// linesOfQuestion bounds what is shown of what is asked about.
const linesOfQuestion = 40

// question puts a question on the terminal, whatever the format. What the agent calls
// things is on one line, where it looks like no other question or option. mu is held.
func (c *Terminal) question(call *asked, options []acp.PermissionOption) {
	c.heard()
	c.breakFrom(inAnswer)
	c.breakFrom(inThought)
	out := c.App.Err
	fmt.Fprintf(out, "? %s asks to use: %s\n", c.Agent, cli.Printable(cli.OneLine(call.Title)))
	for _, line := range cli.Excerpt(ToolText(call.Content), linesOfQuestion) {
		fmt.Fprintln(out, "  │ "+cli.Printable(line))
	}
	letters := make([]string, len(options))
	for i := range options {
		letters[i] = LetterOf(options, i)
		fmt.Fprintf(out, "  %s) %s\n", letters[i], OptionName(&options[i]))
	}
	fmt.Fprintf(out, "Answer with %s: ", strings.Join(letters, ", "))
}

// Choose selects the agent's own option of the first kind that there is.
func Choose(options []acp.PermissionOption, kinds ...string) *acp.RequestPermissionResponse {
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: "selected", OptionID: o.OptionID}}
			}
		}
	}
	return acp.CancelledOutcome()
}

// A lineSource reads lines when they are asked for, so that waiting for one can
// be given up. A line that came too late answers the next question.
type lineSource struct {
	turn  sync.Mutex // held by who asks
	in    io.Reader
	once  sync.Once
	lines chan string
}

func newLineSource(in io.Reader) *lineSource {
	return &lineSource{in: in, lines: make(chan string)}
}

// next returns the next line; io.EOF when there is none.
func (l *lineSource) next(ctx context.Context) (string, error) {
	l.once.Do(func() { go l.read() }) // ends with the input, or with the process
	select {
	case line, ok := <-l.lines:
		if !ok {
			return "", io.EOF
		}
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *lineSource) read() {
	defer close(l.lines)
	s := bufio.NewScanner(l.in)
	for s.Scan() {
		l.lines <- s.Text()
	}
}

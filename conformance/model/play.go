package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errDrop asks for the connection to be cut.
var errDrop = errors.New("the script drops the connection")

// errFailed ends an answer that has said its error.
var errFailed = errors.New("the script fails the answer")

// A player plays one step to one client.
type player struct {
	step      Step
	index     int // of the step in its script
	nonce     string
	templates templates
	answer    answer
	hang      func(context.Context, Hang) error
	prompt    int      // tokens of the request, estimated
	offered   []string // tools

	words int // sent so far
}

// play sends the step. It returns errDrop when the connection has to be cut, and
// the context's error when the client or the server has gone.
func (p *player) play(ctx context.Context) error {
	if p.step.After == nil {
		if err := p.interrupt(ctx); err != nil {
			return err
		}
	}
	if err := p.answer.begin(); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{p.think, p.speak, p.call} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return p.answer.finish(p.finishReason(), p.used())
}

func (p *player) think(ctx context.Context) error {
	for _, w := range words(p.templates.Replace(p.step.Reasoning)) {
		if err := pause(ctx, p.step.Delay); err != nil {
			return err
		}
		if err := p.answer.reasoning(w); err != nil {
			return err
		}
	}
	return nil
}

// speak sends the words, with the trouble at its place among them or behind.
func (p *player) speak(ctx context.Context) error {
	all := p.text()
	place := len(all)
	if p.step.After != nil {
		place = min(place, *p.step.After)
	}
	if err := p.say(ctx, all[:place]); err != nil {
		return err
	}
	if p.step.After != nil {
		if err := p.interrupt(ctx); err != nil {
			return err
		}
	}
	if p.step.Error != nil {
		return errors.Join(errFailed, p.answer.fail(p.step.Error))
	}
	return p.say(ctx, all[place:])
}

func (p *player) say(ctx context.Context, words []string) error {
	for _, w := range words {
		if err := pause(ctx, p.step.Delay); err != nil {
			return err
		}
		if err := p.answer.text(w); err != nil {
			return err
		}
		p.words++
	}
	return nil
}

func (p *player) call(context.Context) error {
	for i, t := range p.step.Tools {
		args := p.templates.arguments(t.Args)
		if t.Raw != nil {
			args = *t.Raw
		}
		if err := p.answer.call(i, callID(p.index, i, p.nonce), offered(t.Name, p.offered), args); err != nil {
			return err
		}
	}
	return nil
}

// offered is the first of several names of a tool that the agent offers.
func offered(names string, tools []string) string {
	all := strings.Split(names, "|")
	for _, name := range all {
		if slices.Contains(tools, name) {
			return name
		}
	}
	return all[0]
}

// interrupt hangs and drops, as far as the step wants it.
func (p *player) interrupt(ctx context.Context) error {
	if err := p.hang(ctx, p.step.Hang); err != nil {
		return err
	}
	if p.step.Drop {
		return errDrop
	}
	return nil
}

func (p *player) text() []string {
	if p.step.Tokens == 0 {
		return words(p.templates.Replace(p.step.Text))
	}
	out := make([]string, p.step.Tokens)
	for i := range out {
		out[i] = "t" + strconv.Itoa(i) + " "
	}
	return out
}

func (p *player) finishReason() string {
	switch {
	case p.step.Finish != "":
		return p.step.Finish
	case len(p.step.Tools) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (p *player) used() Usage {
	if p.step.Usage != nil {
		return *p.step.Usage
	}
	said := p.words + len(words(p.step.Reasoning)) + 10*len(p.step.Tools)
	return Usage{PromptTokens: p.prompt, CompletionTokens: said, TotalTokens: p.prompt + said}
}

// status answers with an HTTP status instead of a completion.
func (st *Step) status(w http.ResponseWriter) error {
	for name, value := range st.Headers {
		w.Header().Set(name, value)
	}
	return writeBody(w, st.Status, st.statusBody())
}

var wordPattern = regexp.MustCompile(`\S+\s*|\s+`)

// words cuts a text into words with the white space that follows them.
func words(text string) []string { return wordPattern.FindAllString(text, -1) }

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pausing: %w", context.Cause(ctx))
	}
}

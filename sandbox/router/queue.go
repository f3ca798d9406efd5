package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gander.dev/gander/acp"
)

// errDropped ends a turn's context when the person took back a prompt that waited.
var errDropped = errors.New("the person took the prompt back")

// admit gives a prompt its place in the queue: behind the others, which the person is told, or
// as the next one when it is a /now, for which the running turn ends. It returns no turn for a
// command that does not wait, which has been answered then.
func (s *session) admit(ctx context.Context, prompt []acp.ContentBlock) *turn {
	kept := s.withoutClosed(prompt)
	c, args := commandOf(prompt)
	switch {
	case c == nil || !c.atOnce:
		t := s.enqueue(ctx, prompt, kept)
		s.sayPlace(t)
		return t
	case c.name == nowCommand && args != "":
		i := slices.IndexFunc(prompt, func(raw acp.ContentBlock) bool { return acp.ContentType(raw) == "text" })
		prompt, kept = slices.Clone(prompt), slices.Clone(kept)
		prompt[i], kept[i] = acp.TextBlock(args), acp.TextBlock(args)
		t := s.enqueue(ctx, prompt, kept)
		s.advance(t)
		return t
	}
	text, err := c.run(ctx, commandCall{s: s, args: args})
	if err != nil {
		text = fmt.Sprintf("/%s: %s", c.name, errorText(err))
	}
	s.send(ctx, acp.MessageChunk(acp.AgentMessageChunk, "gander-"+newID(), strings.TrimRight(text, "\n")+"\n"))
	return nil
}

// sayPlace says that a prompt waits, if it does.
func (s *session) sayPlace(t *turn) {
	s.mu.Lock()
	before := slices.Index(s.queue, t)
	over := before == 1 && s.queue[0].isOver()
	s.mu.Unlock()
	if before < 1 || over {
		return
	}
	s.send(s.now, thought(fmt.Sprintf("This prompt waits, as number %d: %s. /queue shows what waits, /queue drop %d takes it back, /now TEXT ends the turn that runs.", before, gist(t.prompt), before)))
}

// advance makes a turn the next one, and ends the one that runs.
func (s *session) advance(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, t)
	if i < 1 {
		return
	}
	s.queue = slices.Insert(slices.Delete(s.queue, i, i+1), 1, t)
	s.queue[0].cancel(errCancelled)
}

// maxGist bounds what is said of a prompt, in bytes.
const maxGist = 80

// gist returns how a prompt begins, on one line.
func gist(prompt []acp.ContentBlock) string {
	text := strings.Join(strings.Fields(plainText(prompt)), " ")
	if len(text) > maxGist {
		text = strings.ToValidUTF8(text[:maxGist], "") + " …"
	}
	return text
}

// commandQueue lists the prompts that wait, or takes one back.
func commandQueue(_ context.Context, call commandCall) (string, error) {
	s := call.s
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.queue[min(len(s.queue), 1):]
	verb, number, _ := strings.Cut(call.args, " ")
	switch {
	case len(waiting) == 0:
		return "No prompt waits.", nil
	case call.args == "":
		var b strings.Builder
		b.WriteString("Prompts that wait:\n")
		for i, t := range waiting {
			fmt.Fprintf(&b, "%d. %s\n", i+1, gist(t.prompt))
		}
		return b.String(), nil
	case verb != "drop":
		return "", fmt.Errorf("%q is not known; say /queue, or /queue drop N", call.args)
	}
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil || n < 1 || n > len(waiting) {
		return "", fmt.Errorf("there is no prompt %q that waits; choose a number from 1 to %d", number, len(waiting))
	}
	t := waiting[n-1]
	t.cancel(errDropped)
	return "Taken back: " + gist(t.prompt), nil
}

// nowCommand names the command that ends the turn that runs.
const nowCommand = "now"

// commandNow answers a /now that says nothing.
func commandNow(context.Context, commandCall) (string, error) {
	return "", errors.New("say what to go on with: /now TEXT ends the turn that runs and goes on with TEXT")
}

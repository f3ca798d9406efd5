package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"gander.dev/gander/acp"
)

// options are the answers to a question, as opencode has them.
var options = []acp.PermissionOption{
	{OptionID: "once", Kind: "allow_once", Name: "Allow once"},
	{OptionID: "always", Kind: "allow_always", Name: "Always allow"},
	{OptionID: "reject", Kind: "reject_once", Name: "Reject"},
}

// asked puts a question of a sub-agent's to the person, in its name. One of the conversation
// itself comes by ACP as well; any other has nobody who could answer, and is refused.
func (k *children) asked(w *watch, c *child, raw json.RawMessage) {
	var a asked
	if json.Unmarshal(raw, &a) != nil || a.ID == "" || acp.SessionID(a.SessionID) == k.own() {
		return
	}
	asker := w.ctx
	if c != nil {
		asker = c.ctx
	}
	ctx, done := context.WithCancel(asker)
	if c != nil {
		k.mu.Lock()
		c.questions[a.ID] = done
		k.mu.Unlock()
	}
	w.asking.Go(func() {
		defer done()
		answer := "reject"
		if c != nil {
			answer = k.ask(ctx, c, &a)
			k.answered(c, a.ID)
		}
		// The question is answered whatever has ended meanwhile: opencode would wait for ever.
		err := k.control.reply(context.WithoutCancel(ctx), a.ID, answer)
		if err == nil || errors.Is(err, errNotThere) || k.ended(c) {
			return
		}
		k.endTurn("opencode did not take the answer to its sub-agent's question.", err)
	})
}

// ask returns the person's answer as opencode takes it.
func (k *children) ask(ctx context.Context, c *child, a *asked) string {
	resp, err := k.out.RequestPermission(ctx, &acp.RequestPermissionRequest{SessionID: c.id, ToolCall: c.mend.question(a.toolCall()), Options: options})
	if err != nil || resp.Outcome.Outcome != "selected" || !slices.ContainsFunc(options, func(o acp.PermissionOption) bool { return o.OptionID == resp.Outcome.OptionID }) {
		return "reject"
	}
	return resp.Outcome.OptionID
}

// answered ends a question that has an answer.
func (k *children) answered(c *child, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if done := c.questions[id]; done != nil {
		done()
	}
	delete(c.questions, id)
}

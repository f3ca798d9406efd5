package orchestrator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/team/chat"
)

// decision is one answer of the planner. One without actions is said to the person.
type decision struct {
	text    string
	actions []*action
	raw     string
}

// decide asks the planner what is to be done next.
func (r *run) decide() (*decision, error) {
	if r.s.plain {
		return r.decideByText()
	}
	reply, err := r.ask(chat.Request{Messages: r.messages(), Tools: tools()}, true)
	if e, ok := errors.AsType[*chat.Error](err); ok && e.NoTools() {
		r.s.plain = true
		r.s.p.Notice("info", "The endpoint of the orchestrator's model takes no tools: it is asked for JSON instead.")
		return r.decideByText()
	}
	if err != nil {
		return nil, err
	}
	r.s.talk = append(r.s.talk, reply.Message)
	d := &decision{text: reply.Content, raw: reply.Content}
	for _, c := range reply.Calls {
		d.actions = append(d.actions, decode(c.ID, c.Function.Name, c.Function.Arguments))
		d.raw += fmt.Sprintf("\n%s(%s)", c.Function.Name, c.Function.Arguments)
	}
	d.raw = strings.TrimSpace(d.raw)
	return d, nil
}

// ask asks the planner's model. What it says and thinks is shown as it comes, but for JSON.
func (r *run) ask(q chat.Request, says bool) (*chat.Reply, error) {
	r.calls++
	q.Model = r.model
	said, thought := fmt.Sprintf("%s-%d", r.id, r.calls), fmt.Sprintf("%s-%d-thought", r.id, r.calls)
	reply, err := r.s.chat.Ask(r.ctx, q, func(d chat.Delta) {
		if d.Reasoning != "" {
			r.s.send(acp.MessageChunk(acp.AgentThoughtChunk, thought, d.Reasoning))
		}
		if d.Text != "" && says {
			r.s.send(acp.MessageChunk(acp.AgentMessageChunk, said, d.Text))
		}
	})
	if err == nil {
		r.asked(reply.Usage)
	}
	return reply, err
}

// asked takes down what a call of the planner's model has used, and shows it.
func (r *run) asked(u chat.Usage) {
	r.spend(u.Input, u.Output, u.Total)
	r.s.holds = max(u.Total, u.Input+u.Output)
	r.showUse()
}

// showUse shows how much of its room the planner's conversation takes, and in _meta what the
// turn has used so far, with those that it gave tasks. What it has cost the router adds.
func (r *run) showUse() {
	if r.s.holds == 0 { // the endpoint does not tell
		return
	}
	r.s.send(update("usage_update", map[string]any{
		"used": r.s.holds, "size": max(r.s.holds, maxTalk/chat.BytesOfToken), "_meta": map[string]any{"gander.dev": map[string]any{"usage": r.usage()}},
	}))
}

// maxTalk bounds what the planner's model is given of a conversation, and maxStale a text of
// which the beginning is enough, in bytes.
const (
	maxTalk  = 160 << 10
	maxStale = 300
)

// messages are the planner's conversation behind what it is told first.
func (r *run) messages() []chat.Message {
	r.s.talk = chat.Shortened(r.s.talk, maxTalk)
	talk := r.s.talk
	if r.s.plain {
		talk = asText(talk)
	}
	return append([]chat.Message{{Role: "system", Content: r.order()}}, talk...)
}

// asText is a conversation without tools: calls are JSON that was said, and results are told.
func asText(talk []chat.Message) []chat.Message {
	var out []chat.Message
	for _, m := range talk {
		switch {
		case m.Role == "tool":
			m = chat.Message{Role: "user", Content: "Result:\n" + m.Content}
		case len(m.Calls) > 0:
			for _, c := range m.Calls {
				m.Content += fmt.Sprintf("\n{\"action\": %s}", acp.WithFields(json.RawMessage(c.Function.Arguments), map[string]any{"type": c.Function.Name}))
			}
			m.Calls = nil
		}
		out = append(out, m)
	}
	return out
}

// decideByText asks for a decision as JSON. An answer that is none is asked for once more,
// with what is wrong with it.
func (r *run) decideByText() (*decision, error) {
	var why error
	for range 2 {
		said, err := r.askForText()
		if err != nil {
			return nil, err
		}
		r.s.talk = append(r.s.talk, chat.Message{Role: "assistant", Content: said})
		a, err := parse(said)
		if err == nil {
			return &decision{actions: []*action{a}, raw: said}, nil
		}
		why = fmt.Errorf("the planner's answer is no decision: %w. It said: %s", err, chat.Cut(said, maxStale))
		r.s.talk = append(r.s.talk, chat.Message{Role: "user", Content: "That cannot be read: " + err.Error() + ". Answer with one JSON object as you were told, and nothing else."})
	}
	return nil, acp.Internal(why.Error(), nil)
}

// askForText asks the planner for a decision as JSON.
func (r *run) askForText() (string, error) {
	if r.planner != "" {
		return r.askAgent(r.ctx)
	}
	reply, err := r.ask(chat.Request{Messages: r.messages()}, false)
	if err != nil {
		return "", err
	}
	return reply.Content, nil
}

// parse reads a decision from what a model said: what is fenced, all of it, or what is
// between the first and the last brace.
func parse(said string) (*action, error) {
	tries := []string{said}
	if _, rest, ok := strings.Cut(said, "```"); ok {
		body, _, _ := strings.Cut(rest, "```")
		tries = append([]string{strings.TrimPrefix(strings.TrimSpace(body), "json")}, tries...)
	}
	if i, j := strings.Index(said, "{"), strings.LastIndex(said, "}"); i >= 0 && j > i {
		tries = append(tries, said[i:j+1])
	}
	var first error
	for _, text := range tries {
		a, err := decisionIn(text)
		if err == nil {
			return a, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func decisionIn(text string) (*action, error) {
	var d struct {
		Rationale string          `json:"rationale"`
		Action    json.RawMessage `json:"action"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &d); err != nil {
		return nil, errors.New(whatIsWrong(err))
	}
	var kind struct {
		Type string `json:"type"`
	}
	if len(d.Action) == 0 || json.Unmarshal(d.Action, &kind) != nil || kind.Type == "" {
		return nil, errors.New(`there is no "action" with a "type"`)
	}
	a := decode("", kind.Type, string(d.Action))
	if a.problem != "" {
		return nil, errors.New(a.problem)
	}
	if a.Rationale == "" {
		a.Rationale = d.Rationale
	}
	return a, nil
}

// tokens count those that a run has used; models and agents do not tell of all.
type tokens struct{ in, out, total int64 }

// spend adds to what the run has used.
func (r *run) spend(in, out, total int64) {
	if total == 0 {
		total = in + out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = tokens{r.used.in + in, r.used.out + out, r.used.total + total}
}

// usage returns the tokens of the planner and of those it gave tasks, as ACP has them.
func (r *run) usage() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, _ := json.Marshal(map[string]int64{"inputTokens": r.used.in, "outputTokens": r.used.out, "totalTokens": r.used.total}) // numbers always marshal
	return raw
}

package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/conformance/harness"
)

// prompted queues a turn and runs it when those before it have ended.
func (f *fake) prompted(id json.RawMessage, s *fakeSession, p sessionParams) {
	if p.Prompt == nil && !f.broken("takes any params") {
		f.fail(id, -32602, "no prompt")
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	register := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.cancels = append(s.cancels, cancel)
		f.running[string(id)] = cancel
		if s.poison {
			s.poison = false
			cancel()
		}
	}
	busy := !s.turn.TryLock()
	if !busy {
		s.turn.Unlock()
	}
	if busy && f.broken("ignores second prompts") {
		return
	}
	late := f.broken("registers late")
	if !late {
		register()
	}
	order := make(chan struct{})
	go func() {
		if late {
			time.Sleep(20 * time.Millisecond)
			register()
		}
		if f.broken("one turn at a time") {
			oneTurn.Lock()
			defer oneTurn.Unlock()
		}
		s.turn.Lock()
		close(order)
		defer s.turn.Unlock()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			s.cancels = s.cancels[:len(s.cancels)-1]
			delete(f.running, string(id))
		}()
		f.answer(ctx, id, s, p)
	}()
	if !busy && !f.broken("one turn at a time") && !late {
		<-order
	}
}

var oneTurn sync.Mutex

// answer runs a turn and answers its prompt.
func (f *fake) answer(ctx context.Context, id json.RawMessage, s *fakeSession, p sessionParams) {
	t := &fakeTurn{fake: f, s: s, ctx: ctx}
	if f.broken("hangs on odd blocks") && (len(p.Prompt) == 0 || !bytes.Contains(p.Prompt[0], []byte("tag-"))) {
		<-ctx.Done()
	}
	t.tellOffered()
	stop := t.run(p.Prompt)
	if ctx.Err() != nil {
		stop = "cancelled"
		if f.broken("answers cancels with errors") {
			f.fail(id, -32603, "context canceled")
			return
		}
		if f.broken("forgets cancelled prompts") {
			f.mu.Lock()
			s.history = s.history[:max(0, len(s.history)-1)]
			f.mu.Unlock()
		}
	}
	f.reply(id, map[string]any{"stopReason": stop})
	if ctx.Err() != nil && f.broken("answers cancels twice") {
		f.reply(id, map[string]any{"stopReason": stop})
	}
	if f.broken("talks after the answer") {
		f.chunk(s, "agent_message_chunk", "by the way")
	}
}

func (f *fake) chunk(s *fakeSession, kind, text string) map[string]any {
	if f.broken("asciifies") {
		text = strings.Map(func(r rune) rune {
			if r > 126 {
				return '?'
			}
			return r
		}, text)
	}
	fields := map[string]any{"content": map[string]any{"type": "text", "text": text}}
	if f.broken("adds fields") {
		fields["author"] = "me"
	}
	return f.update(s, kind, fields)
}

type fakeTurn struct {
	*fake
	s   *fakeSession
	ctx context.Context
}

// run is a turn: the model is asked until it wants no more tools.
func (t *fakeTurn) run(blocks []json.RawMessage) (stop string) {
	text, content := t.read(blocks)
	if t.broken("swallows slashes") && strings.HasPrefix(text, "/") {
		return "end_turn"
	}
	shown := map[string]any{"sessionUpdate": "user_message_chunk", "content": map[string]any{"type": "text", "text": text}}
	t.keep(t.s, entry{Message: map[string]any{"role": "user", "content": content}, Updates: []map[string]any{shown}})
	for range 50 {
		said, err := t.model()
		for try := 0; err != nil && t.ctx.Err() == nil && try < 2; try++ {
			if t.broken("dies of broken streams") {
				os.Exit(1)
			}
			said, err = t.model()
		}
		if t.ctx.Err() != nil {
			return "cancelled"
		}
		if err != nil {
			if !t.broken("is silent about errors") {
				t.chunk(t.s, "agent_message_chunk", "The model fails: "+err.Error())
			}
			return "end_turn"
		}
		if len(said.calls) == 0 {
			return map[string]string{"length": "max_tokens"}[said.finish] + map[bool]string{true: "end_turn"}[said.finish != "length"]
		}
		t.tools(said)
		if t.ctx.Err() != nil {
			return "cancelled"
		}
	}
	return "max_turn_requests"
}

// read makes what the model gets of a prompt.
func (t *fakeTurn) read(blocks []json.RawMessage) (text string, content any) {
	var parts []any
	for i, raw := range blocks {
		var b struct {
			Type, Text, URI, Data, MimeType string
			Resource                        struct{ URI, Text string }
		}
		_ = json.Unmarshal(raw, &b)
		say := ""
		switch {
		case t.broken("takes the first block") && i > 0, t.broken("drops links") && b.Type == "resource_link",
			t.broken("drops resources") && b.Type == "resource", t.broken("drops images") && b.Type == "image":
		case b.Type == "text":
			say = b.Text
		case b.Type == "resource_link":
			say = "see " + b.URI
		case b.Type == "resource":
			say = b.Resource.URI + ": " + b.Resource.Text
		case b.Type == "image":
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:" + b.MimeType + ";base64," + b.Data}})
		}
		if say != "" {
			text += say + "\n"
			parts = append(parts, map[string]any{"type": "text", "text": say})
		}
	}
	return strings.TrimSuffix(text, "\n"), parts
}

// said is one answer of the model.
type said struct {
	text   string
	calls  []*toolCall
	finish string
	shown  []map[string]any
}

type toolCall struct {
	Index    int
	ID       string
	Function struct{ Name, Arguments string }
}

func (t *fakeTurn) model() (*said, error) {
	tools := []any{}
	for _, name := range append([]string{"shell", "write", "task"}, t.s.tools...) {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{"type": "object"}}})
	}
	t.mu.Lock()
	var messages []any
	for _, e := range t.s.history {
		messages = append(messages, e.Message)
	}
	t.mu.Unlock()
	if t.broken("forgets") {
		messages = messages[len(messages)-1:]
	}
	body := harness.Marshal(map[string]any{"model": "m", "stream": true, "messages": messages, "tools": tools})
	req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, os.Getenv("OPENAI_HOST")+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	req.Header.Set("X-Session-Id", t.s.id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return t.listen(resp.Body)
}

func (t *fakeTurn) listen(in io.Reader) (*said, error) {
	a := &said{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			if data == "[DONE]" {
				break
			}
			t.delta(a, data)
		}
		if err != nil {
			return nil, fmt.Errorf("the stream breaks: %w", err)
		}
	}
	if t.broken("streams at the end") {
		a.shown = append(a.shown, t.chunk(t.s, "agent_message_chunk", a.text))
	}
	message := map[string]any{"role": "assistant", "content": a.text}
	if len(a.calls) > 0 {
		var all []any
		for _, c := range a.calls {
			all = append(all, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Function.Name, "arguments": c.Function.Arguments}})
		}
		message["tool_calls"] = all
	}
	t.keep(t.s, entry{Message: message, Updates: a.shown})
	return a, nil
}

func (t *fakeTurn) delta(a *said, data string) {
	var chunk struct {
		Choices []struct {
			Delta struct {
				Content          string
				ReasoningContent string     `json:"reasoning_content"`
				ToolCalls        []toolCall `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
	}
	_ = json.Unmarshal([]byte(data), &chunk)
	for _, c := range chunk.Choices {
		if c.FinishReason != "" {
			a.finish = c.FinishReason
		}
		if c.Delta.ReasoningContent != "" {
			kind := "agent_thought_chunk"
			if t.broken("thinks aloud") {
				kind = "agent_message_chunk"
			}
			a.shown = append(a.shown, t.chunk(t.s, kind, c.Delta.ReasoningContent))
		}
		if c.Delta.Content != "" {
			a.text += c.Delta.Content
			if !t.broken("streams at the end") && (!t.broken("loses words") || !strings.HasSuffix(a.text, "99 ")) {
				a.shown = append(a.shown, t.chunk(t.s, "agent_message_chunk", c.Delta.Content))
			}
		}
		for _, d := range c.Delta.ToolCalls {
			for len(a.calls) <= d.Index {
				a.calls = append(a.calls, &toolCall{})
			}
			call := a.calls[d.Index]
			call.ID += d.ID
			call.Function.Name += d.Function.Name
			call.Function.Arguments += d.Function.Arguments
		}
	}
}

// tools runs what the model wants.
func (t *fakeTurn) tools(a *said) {
	for _, c := range a.calls {
		var args struct{ Command, Path, Content string }
		_ = json.Unmarshal([]byte(c.Function.Arguments), &args)
		shown := c.ID
		if t.broken("reuses call ids") {
			shown = "call"
		}
		title := args.Command + args.Path
		call := &fakeCall{fakeTurn: t, id: shown, name: c.Function.Name, command: args.Command, path: args.Path, text: args.Content}
		if t.broken("updates unannounced calls") {
			call.id += "-other"
		}
		announced := map[string]any{"toolCallId": shown, "title": title, "kind": call.kind(), "status": "pending"}
		call.shown = append(call.shown, t.update(t.s, "tool_call", announced))
		result := call.run()
		if t.ctx.Err() != nil && t.broken("leaves calls open") {
			return
		}
		t.keep(t.s, entry{Message: map[string]any{"role": "tool", "tool_call_id": c.ID, "content": result}, Updates: call.shown})
	}
}

// A fakeCall is a tool call.
type fakeCall struct {
	*fakeTurn
	id, name, command, path, text string
	shown                         []map[string]any
}

func (c *fakeCall) kind() string {
	return map[string]string{"shell": "execute", "write": "edit"}[c.name] + map[bool]string{true: "other"}[c.name != "shell" && c.name != "write"]
}

func textContent(text string) []any {
	return []any{map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": text}}}
}

// ends shows how the call ended.
func (c *fakeCall) ends(status, text string, more map[string]any) string {
	if c.ctx.Err() != nil && c.broken("leaves calls open") || c.broken("never completes calls") {
		return text
	}
	fields := map[string]any{"toolCallId": c.id, "status": status, "content": textContent(text)}
	maps.Copy(fields, more)
	c.shown = append(c.shown, c.update(c.s, "tool_call_update", fields))
	return text
}

func (c *fakeCall) run() string {
	if c.broken("runs before it asks") {
		c.execute()
	}
	if !c.allowed() {
		return c.ends("failed", "not allowed", nil)
	}
	switch c.name {
	case "shell":
		text, failed := c.execute()
		if c.ctx.Err() != nil {
			return c.ends("failed", "cancelled", nil)
		}
		if failed != "" && !c.broken("hides failures") {
			return c.ends("failed", text+"\n"+failed, nil)
		}
		return c.ends("completed", text, nil)
	case "task":
		return c.ends("completed", c.child(), nil)
	case "write":
		_ = os.WriteFile(c.path, []byte(c.text), 0o600)
		if c.broken("writes through the client") {
			c.ask(c.ctx, "fs/write_text_file", map[string]any{"sessionId": c.s.id, "path": c.path, "content": c.text})
		}
		if c.broken("shows no diffs") {
			return c.ends("completed", "written", nil)
		}
		return c.ends("completed", "written", map[string]any{
			"content":   []any{map[string]any{"type": "diff", "path": c.path, "oldText": nil, "newText": c.text}},
			"locations": []any{map[string]any{"path": c.path}},
		})
	}
	if c.broken("dies of unknown tools") {
		os.Exit(1)
	}
	return c.ends("failed", "there is no such tool", nil)
}

// allowed asks the person in the mode that does.
func (c *fakeCall) allowed() bool {
	if c.broken("writes through the client") && c.name == "shell" {
		c.ask(c.ctx, "fs/write_text_file", map[string]any{"sessionId": c.s.id, "path": filepath.Join(c.s.cwd, "x"), "content": "x"})
	}
	if c.s.mode != "ask" || c.broken("asks once") && c.s.asked {
		return true
	}
	c.s.asked = true
	title := c.command
	if c.broken("asks without the command") {
		title = "a command"
		c.command = "" // also what was announced names it, which this defect hides
	}
	option := func(id string) any { return map[string]any{"optionId": id, "name": id, "kind": id} }
	raw := c.ask(c.ctx, "session/request_permission", map[string]any{
		"sessionId": c.s.id, "toolCall": map[string]any{"toolCallId": c.id, "title": title}, "options": []any{option("allow_once"), option("reject_once")},
	})
	var answer struct {
		Outcome struct{ Outcome, OptionID string }
	}
	_ = json.Unmarshal(raw, &answer)
	switch {
	case c.ctx.Err() != nil:
		return false
	case answer.Outcome.OptionID == "reject_once":
		return c.broken("runs what is rejected")
	case answer.Outcome.Outcome == "cancelled":
		return c.broken("takes cancelled for yes")
	case answer.Outcome.OptionID == "allow_once":
		return true
	}
	return c.broken("takes anything for yes")
}

// shownOutput is how much of a command's output is kept.
const shownOutput = 32 << 10

// execute runs the command and shows what it prints.
func (c *fakeCall) execute() (text, failed string) {
	cmd := inShell(c.command)
	cmd.Dir = c.s.cwd
	if c.broken("runs where it was started") {
		cmd.Dir = ""
	}
	mark := fmt.Sprintf("%sc%d_", c.owner, time.Now().UnixNano())
	cmd.Env = append(os.Environ(), ownerVariable+"="+mark)
	out := &fakeOutput{call: c}
	cmd.Stdout, cmd.Stderr = out, out
	if c.broken("loses stderr") {
		cmd.Stderr = nil
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return "", err.Error()
	}
	stop := context.AfterFunc(c.ctx, func() {
		switch {
		case c.broken("cancels no commands"):
		case c.broken("kills nothing"):
			_ = cmd.Process.Kill()
		case c.broken("kills the group only"):
			harness.KillGroup(cmd)
		default:
			harness.KillMarked(mark)
		}
	})
	defer stop()
	err := cmd.Wait()
	if err != nil {
		failed = err.Error()
	}
	return out.kept(), failed
}

// A fakeOutput keeps the end of what a command prints and shows it now and then.
type fakeOutput struct {
	call *fakeCall
	mu   sync.Mutex
	text []byte
	lost bool
	last time.Time
}

// Write implements io.Writer.
func (o *fakeOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.call
	if !c.broken("loses the end") || len(o.text) < shownOutput {
		o.text = append(o.text, p...)
	}
	if len(o.text) > 4*shownOutput && !c.broken("keeps all output") && !c.broken("sends huge frames") {
		o.text, o.lost = append([]byte{}, o.text[len(o.text)-shownOutput:]...), true
	}
	if time.Since(o.last) > 50*time.Millisecond && !c.broken("shows output at the end") {
		o.last = time.Now()
		c.update(c.s, "tool_call_update", map[string]any{"toolCallId": c.id, "status": "in_progress", "content": textContent(o.tail())})
	}
	return len(p), nil
}

func (o *fakeOutput) tail() string {
	return strings.ToValidUTF8(string(o.text[max(0, len(o.text)-shownOutput):]), "?")
}

func (o *fakeOutput) kept() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.call.broken("sends huge frames"):
		return string(o.text) + strings.Repeat("x", 11<<20)
	case o.call.broken("keeps all output"):
		copies := bytes.Repeat(o.text, 3) // as careless code does
		return string(copies[max(0, len(copies)-shownOutput):])
	case o.call.broken("loses the end"):
		return string(o.text[:min(len(o.text), shownOutput)])
	}
	if o.lost {
		return "(truncated)\n" + o.tail()
	}
	return o.tail()
}

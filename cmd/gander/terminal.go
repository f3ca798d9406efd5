package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// terminalClient is an ACP client that shows a turn to a person or a script.
type terminalClient struct {
	app   *app
	flags runFlags
	agent string
	// prepared is the session to go on with; nil for one of its own.
	prepared *sessions.Prepared
	answers  *lineSource // where a person answers questions; nil when there is no person
	began    time.Time
	dim      bool // thoughts are shown dimmed
	clean    bool // stdout is a terminal: what could control it is taken out

	// mu guards what follows, and keeps lines of output whole.
	mu     sync.Mutex
	line   lineState
	denied string   // why a permission was not given; empty when none was missing
	known  bool     // the session has been printed, as JSON
	early  [][]byte // updates from before that
	answer answerText
	tools  map[string]*shownTool
}

// lineState is what the cursor stands after.
type lineState int

const (
	lineStart lineState = iota
	inAnswer
	inThought
)

func newTerminalClient(a *app, f runFlags, agent string) *terminalClient {
	c := &terminalClient{
		app: a, flags: f, agent: agent, began: time.Now(), tools: map[string]*shownTool{},
		dim: isTerminal(a.err) && !a.cfg.NoColor, clean: isTerminal(a.out),
	}
	if isTerminal(a.in) {
		c.answers = newLineSource(a.in)
	}
	return c
}

// update is what is shown of a session/update.
type update struct {
	Kind       string          `json:"sessionUpdate"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"toolCallId"`
	Title      string          `json:"title"`
	Status     string          `json:"status"`
}

// SessionUpdate implements acp.Client.
func (c *terminalClient) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flags.format == formatJSON {
		if !c.known {
			c.early = append(c.early, bytes.Clone(n.Update))
			return nil
		}
		c.printLine(n.Update)
		return nil
	}
	var u update
	if json.Unmarshal(n.Update, &u) != nil {
		return nil
	}
	switch u.Kind {
	case string(acp.AgentMessageChunk):
		c.say(acp.ParseContentBlock(u.Content).Text)
	case string(acp.AgentThoughtChunk):
		c.think(acp.ParseContentBlock(u.Content).Text)
	case "notice":
		c.progress("! " + u.Title)
	case "tool_call", "tool_call_update":
		c.answer.pause()
		c.tool(&u)
	}
	return nil
}

// say shows words of the answer. mu is held, here and below.
func (c *terminalClient) say(text string) {
	c.answer.add(text)
	if c.flags.format == formatQuiet || text == "" {
		return
	}
	c.breakFrom(inThought)
	if c.clean {
		text = printable(text)
	}
	fmt.Fprint(c.app.out, text)
	c.stand(inAnswer, text)
}

func (c *terminalClient) think(text string) {
	if c.flags.format == formatQuiet || text == "" {
		return
	}
	c.breakFrom(inAnswer)
	shown := printable(text)
	if c.line == lineStart {
		shown = "… " + shown
	}
	if c.dim {
		shown = "\x1b[2m" + shown + "\x1b[0m"
	}
	fmt.Fprint(c.app.err, shown)
	c.stand(inThought, text)
}

func (c *terminalClient) stand(state lineState, text string) {
	c.line = state
	if strings.HasSuffix(text, "\n") {
		c.line = lineStart
	}
}

// progress shows a line about what happens.
func (c *terminalClient) progress(line string) {
	if c.flags.format != formatText {
		return
	}
	c.breakFrom(inAnswer)
	c.breakFrom(inThought)
	fmt.Fprintln(c.app.err, printable(line))
}

// breakFrom ends the line of a state that something else follows.
func (c *terminalClient) breakFrom(state lineState) {
	if c.line != state {
		return
	}
	c.line = lineStart
	if state == inAnswer {
		fmt.Fprintln(c.app.out)
		return
	}
	fmt.Fprintln(c.app.err)
}

// opened says which session the turn runs in.
func (c *terminalClient) opened(id acp.SessionID, cwd string) {
	if c.flags.format == formatJSON {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.printValue(map[string]any{"sessionId": id, "cwd": cwd, "agent": c.agent})
		c.known = true
		for _, u := range c.early {
			c.printLine(u)
		}
		c.early = nil
	}
}

// end finishes the output of a turn.
func (c *terminalClient) end(resp *acp.PromptResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.flags.format {
	case formatJSON:
		c.printValue(resp)
	case formatQuiet:
		if resp.StopReason != acp.StopCancelled {
			text := strings.TrimRight(c.answer.last(), "\n")
			if c.clean {
				text = printable(text)
			}
			fmt.Fprintln(c.app.out, text)
		}
	default:
		c.breakFrom(inThought)
		c.breakFrom(inAnswer)
		c.progress(summary(resp, time.Since(c.began)))
	}
}

// summary is the last line of progress.
func summary(resp *acp.PromptResponse, took time.Duration) string {
	var usage struct {
		Total int64 `json:"totalTokens"`
	}
	_ = json.Unmarshal(resp.Usage, &usage) // agents may give none
	line := fmt.Sprintf("%s after %s", strings.ReplaceAll(string(resp.StopReason), "_", " "), roundDuration(took))
	if usage.Total > 0 {
		line += fmt.Sprintf(", %d tokens", usage.Total)
	}
	return line
}

// failed shows that the turn failed and returns the error.
func (c *terminalClient) failed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flags.format == formatJSON {
		c.printValue(map[string]any{"error": map[string]string{"message": messageOf(err)}})
	}
	c.breakFrom(inThought)
	c.breakFrom(inAnswer)
	return err
}

// refused is why a permission was not given, and what to do; empty when none was missing.
func (c *terminalClient) refused() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied
}

// printValue prints a value as a line of JSON.
func (c *terminalClient) printValue(v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		c.app.log.Error("printing a line of JSON", "err", err)
		return
	}
	c.printLine(raw)
}

func (c *terminalClient) printLine(raw []byte) {
	_, _ = c.app.out.Write(append(printableJSON(c.app.secrets.hide(raw)), '\n')) // a reader that went away is not the turn's business
}

// answerText is the answer: what the agent said after its last tool call, or the
// last thing it said when nothing came after that.
type answerText struct {
	text   strings.Builder
	paused bool
}

func (t *answerText) pause() { t.paused = true }

func (t *answerText) add(text string) {
	if t.paused && strings.TrimSpace(text) != "" {
		t.text.Reset()
	}
	t.paused = t.paused && strings.TrimSpace(text) == ""
	t.text.WriteString(text)
}

func (t *answerText) last() string { return t.text.String() }

// Package show talks with the person at the terminal: the client of gander run, questions
// and their answers, and progress.
package show

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sessions"
)

// Terminal is an ACP client that shows a turn to a person or a script.
type Terminal struct {
	App   *cli.App
	Flags RunFlags
	Agent string
	// Prepared is the session to go on with; nil for one of its own.
	Prepared *sessions.Prepared
	lines    *lineSource // of stdin
	person   bool        // stdin is a terminal: somebody answers questions
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
	// waiting shows that the agent has not said anything yet; nil once it has.
	waiting *Progress
}

// lineState is what the cursor stands after.
type lineState int

const (
	lineStart lineState = iota
	inAnswer
	inThought
)

func NewTerminal(a *cli.App, f RunFlags, agent string) *Terminal {
	c := &Terminal{
		App: a, Flags: f, Agent: agent, began: time.Now(), tools: map[string]*shownTool{},
		dim: cli.IsTerminal(a.Err) && !a.Config.NoColor, clean: cli.IsTerminal(a.Out),
		lines: newLineSource(a.In), person: cli.IsTerminal(a.In),
	}
	return c
}

// Update holds the shown parts of a session/update.
type Update struct {
	Kind       string          `json:"sessionUpdate"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"toolCallId"`
	Title      string          `json:"title"`
	Status     string          `json:"status"`
}

// SessionUpdate implements acp.Client.
func (c *Terminal) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Flags.Format == FormatJSON {
		if !c.known {
			c.early = append(c.early, bytes.Clone(n.Update))
			return nil
		}
		c.printLine(n.Update)
		return nil
	}
	var u Update
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

// Await shows to a person that the agent is to answer, until it says its first word.
func (c *Terminal) Await() {
	if c.Flags.Format == FormatJSON || !draws(c.App) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = Watch(c.App, "waiting for "+c.Agent, 5*time.Second)
}

// heard ends what Await began. mu is held, here and below.
func (c *Terminal) heard() {
	if c.waiting != nil {
		c.waiting.Done()
		c.waiting = nil
	}
}

// say shows words of the answer.
func (c *Terminal) say(text string) {
	c.heard()
	c.answer.add(text)
	if c.Flags.Format == FormatQuiet || text == "" {
		return
	}
	c.breakFrom(inThought)
	if c.clean {
		text = cli.Printable(text)
	}
	fmt.Fprint(c.App.Out, text)
	c.stand(inAnswer, text)
}

func (c *Terminal) think(text string) {
	c.heard()
	if c.Flags.Format == FormatQuiet || text == "" {
		return
	}
	c.breakFrom(inAnswer)
	shown := cli.Printable(text)
	if c.line == lineStart {
		shown = "… " + shown
	}
	if c.dim {
		shown = "\x1b[2m" + shown + "\x1b[0m"
	}
	fmt.Fprint(c.App.Err, shown)
	c.stand(inThought, text)
}

func (c *Terminal) stand(state lineState, text string) {
	c.line = state
	if strings.HasSuffix(text, "\n") {
		c.line = lineStart
	}
}

// Line returns the next line of stdin; io.EOF at its end.
func (c *Terminal) Line(ctx context.Context) (string, error) { return c.lines.next(ctx) }

// Begin prepares for another turn.
func (c *Terminal) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.denied, c.answer = time.Now(), "", answerText{}
}

// Note shows a line about the session, before anything is answered.
func (c *Terminal) Note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress(line)
}

// progress shows a line about what happens; the caller holds mu.
func (c *Terminal) progress(line string) {
	c.heard()
	if c.Flags.Format != FormatText {
		return
	}
	c.breakFrom(inAnswer)
	c.breakFrom(inThought)
	fmt.Fprintln(c.App.Err, cli.Printable(line))
}

// breakFrom ends the line of a state that something else follows.
func (c *Terminal) breakFrom(state lineState) {
	if c.line != state {
		return
	}
	c.line = lineStart
	if state == inAnswer {
		fmt.Fprintln(c.App.Out)
		return
	}
	fmt.Fprintln(c.App.Err)
}

// Opened says which session the turn runs in.
func (c *Terminal) Opened(id acp.SessionID, cwd string) {
	if c.Flags.Format == FormatJSON {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.printValue(map[string]any{"sessionId": id, "cwd": cwd, "agent": c.Agent})
		c.known = true
		for _, u := range c.early {
			c.printLine(u)
		}
		c.early = nil
	}
}

// End finishes the output of a turn.
func (c *Terminal) End(resp *acp.PromptResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard()
	switch c.Flags.Format {
	case FormatJSON:
		c.printValue(resp)
	case FormatQuiet:
		if resp.StopReason != acp.StopCancelled {
			text := strings.TrimRight(c.answer.last(), "\n")
			if c.clean {
				text = cli.Printable(text)
			}
			fmt.Fprintln(c.App.Out, text)
		}
	default:
		c.breakFrom(inThought)
		c.breakFrom(inAnswer)
		c.progress(Summary(resp, time.Since(c.began)))
	}
}

// Summary is the last line of progress.
func Summary(resp *acp.PromptResponse, took time.Duration) string {
	var usage struct {
		Total int64 `json:"totalTokens"`
	}
	_ = json.Unmarshal(resp.Usage, &usage) // agents may give none
	line := fmt.Sprintf("%s after %s", strings.ReplaceAll(string(resp.StopReason), "_", " "), cli.RoundDuration(took))
	if usage.Total > 0 {
		line += fmt.Sprintf(", %d tokens", usage.Total)
	}
	return line
}

// Failed shows that the turn failed and returns the error.
func (c *Terminal) Failed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard()
	if c.Flags.Format == FormatJSON {
		c.printValue(map[string]any{"error": map[string]string{"message": cli.MessageOf(err)}})
	}
	c.breakFrom(inThought)
	c.breakFrom(inAnswer)
	return err
}

// Refused says why a permission was not given, and what to do; empty when none was missing.
func (c *Terminal) Refused() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied
}

// printValue prints a value as a line of JSON.
func (c *Terminal) printValue(v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		c.App.Log.Error("printing a line of JSON", "err", err)
		return
	}
	c.printLine(raw)
}

func (c *Terminal) printLine(raw []byte) {
	_, _ = c.App.Out.Write(append(cli.PrintableJSON(c.App.Secrets.Hide(raw)), '\n')) // a reader that went away is not the turn's business
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

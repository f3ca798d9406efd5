package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gander.dev/gander/developer"
)

const (
	// patience is how long output waits for a client that does not read, before it
	// is left out.
	patience = 2 * time.Second

	// tick is how long lines are gathered, once many came in such a time.
	tick = 50 * time.Millisecond
	// burst is how many notifications may come in a tick before lines are gathered.
	burst = 16
	// maxGathered is how many bytes are gathered at most.
	maxGathered = 32 << 10
)

// lines are those of a call that wait to be sent together. A call's mu guards it.
//
// One notification has one line as long as they come slowly. In a flood it has
// many, so that the client is not asked to handle thousands: goose handles each on
// a task of its own, in any order, and has room for sixteen.
type lines struct {
	waiting []developer.Output
	size    int
	since   time.Time // the beginning of the tick
	sent    int       // notifications in it
	timer   *time.Timer
	armed   bool
	dropped int // pieces of output left out since the last that was sent
}

type logParams struct {
	Level  string    `json:"level"`
	Logger string    `json:"logger"`
	Data   shellLine `json:"data"`
}

// shellLine is the classic shell's notification. The ids are additions: they tell
// the lines of parallel calls apart.
type shellLine struct {
	Type       string          `json:"type"`
	Stream     string          `json:"stream"`
	Output     string          `json:"output"`
	RequestID  json.RawMessage `json:"requestId,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
}

// output sends what a command prints. It holds the command up while the client is
// behind, but not for long: what a client does not read is left out, and the next
// notification says how much that was.
func (c *call) output(o developer.Output) {
	if c.server.opts.Output != nil {
		c.server.opts.Output(c.tool, c.arguments, o)
	}
	if !c.server.client.wantsOutput() || strings.TrimSpace(o.Text) == "" {
		return
	}
	room := c.server.out.room(c.ctx, c.patience())
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.done:
		return
	case !room:
		c.lines.dropped++
		return
	}
	c.tellDropped(o.Stream)
	c.lines.add(o)
	c.sendSoon()
}

// tellDropped adds how much was left out. c.mu is held.
func (c *call) tellDropped(stream string) {
	if n := c.lines.dropped; n > 0 {
		c.lines.dropped = 0
		c.lines.add(developer.Output{Stream: stream, Text: fmt.Sprintf("[%d pieces of output are not shown here: the client did not read them in time]", n)})
	}
}

// patience is how long the next output waits: not at all behind one that has.
func (c *call) patience() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines.dropped > 0 {
		return 0
	}
	return patience
}

// add puts a piece behind what waits, in one with it when it is of the same stream.
func (l *lines) add(o developer.Output) {
	l.size += len(o.Text) + 1
	if n := len(l.waiting); n > 0 && l.waiting[n-1].Stream == o.Stream {
		l.waiting[n-1].Text += "\n" + o.Text
		return
	}
	l.waiting = append(l.waiting, o)
}

// sendSoon sends what waits, now or at the end of the tick. c.mu is held.
func (c *call) sendSoon() {
	l := &c.lines
	if l.armed && l.size < maxGathered {
		return
	}
	now := time.Now()
	if now.Sub(l.since) >= tick {
		l.since, l.sent = now, 0
	}
	if l.sent < c.burst() || l.size >= maxGathered {
		c.flush()
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(tick-now.Sub(l.since), c.flushLate)
		return
	}
	l.timer.Reset(tick - now.Sub(l.since))
}

// burst is one for goose, which would not keep the order of more.
func (c *call) burst() int {
	if c.meta.agent || c.server.client.isGoose() {
		return 1
	}
	return burst
}

// flushLate is the end of a tick.
func (c *call) flushLate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.done && c.lines.armed {
		c.lines.since, c.lines.sent = time.Now(), 0
		c.flush()
	}
}

// flush sends what waits. c.mu is held.
func (c *call) flush() {
	l := &c.lines
	for _, o := range l.waiting {
		l.sent++
		c.server.out.send(notification("notifications/message", logParams{
			Level:  "info",
			Logger: "shell_tool",
			Data:   shellLine{"shell_output", o.Stream, o.Text, c.id, c.meta.toolCallID},
		}))
	}
	l.waiting, l.size = l.waiting[:0], 0
	if l.armed {
		l.armed = false
		l.timer.Stop()
	}
}

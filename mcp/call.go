package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"gander.dev/gander/developer"
)

// call is one tools/call from its line to its answer.
type call struct {
	server    *server
	id        json.RawMessage
	key       string
	tool      string
	arguments json.RawMessage
	meta      meta
	send      func([]byte) // takes the answer

	ctx    context.Context
	cancel context.CancelCauseFunc

	// outcome is what the tool returned; the dispatcher's handler leaves it here,
	// for mcp-go could carry neither an error's code nor a result's exact form.
	outcome struct {
		result developer.Result
		err    error
	}

	// mu guards what follows. It orders notifications and the answer.
	mu      sync.Mutex
	started time.Time
	beat    *time.Timer
	lines   lines
	done    bool // the answer is on its way: nothing else may be sent
}

// run runs the tool and returns the answer.
func (c *call) run() []byte {
	c.begin()
	c.server.rpc.call(c)
	if c.outcome.err != nil {
		return replyError(c.id, errorOf(c.outcome.err))
	}
	return reply(c.id, "result", c.server.client.result(c.outcome.result, c.meta.toolCallID))
}

func (c *call) begin() {
	if c.meta.progressToken == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = time.Now()
	c.beat = time.AfterFunc(c.server.opts.Heartbeat, c.progress)
}

// invoke is the tool itself, called by the dispatcher.
func (c *call) invoke(ctx context.Context) {
	c.outcome.result, c.outcome.err = c.server.tools.Call(ctx, c.tool, developer.Call{
		ID:         string(c.id),
		Arguments:  c.arguments,
		WorkingDir: c.workingDir(),
		SessionID:  c.meta.sessionID,
		Output:     c.output,
	})
}

func (c *call) workingDir() string {
	dir := c.meta.workingDir
	if c.server.opts.Container && c.server.client.isGoose() {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return ""
		}
	}
	return dir
}

// finish sends the answer. Nothing of this call is sent after it.
func (c *call) finish(answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellDropped("stdout")
	c.flush()
	c.done = true
	if c.beat != nil {
		c.beat.Stop()
	}
	c.send(answer)
}

// progress tells a client that asked for it that the call still runs.
func (c *call) progress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return
	}
	if !c.server.out.behind() {
		took := time.Since(c.started).Round(time.Second)
		c.server.out.send(notification("notifications/progress", progressParams{
			c.meta.progressToken, time.Since(c.started).Seconds(), fmt.Sprintf("%s has been running for %s", c.tool, took),
		}))
	}
	c.beat.Reset(c.server.opts.Heartbeat)
}

type progressParams struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
}

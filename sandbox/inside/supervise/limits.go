package supervise

import (
	"context"
	"fmt"
	"io"
	"time"
)

// limitTime ends a command when its time is up, and says so on its stderr. The
// function that it returns stops the clock.
func (c *client) limitTime(cmd *command, p startParams, stderr io.Writer) (stop func() bool) {
	c.mu.Lock()
	limit := c.time
	c.mu.Unlock()
	if limit <= 0 || p.Infrastructure {
		return func() bool { return true }
	}
	return time.AfterFunc(limit, func() {
		_, _ = fmt.Fprintf(stderr, "\ngander: the command is ended after %v, the time that policy.limits.time gives it\n", limit)
		ctx, cancel := context.WithTimeout(context.Background(), killDeadline)
		defer cancel()
		if err := cmd.kill(ctx); err != nil {
			c.log.Warn("a command whose time is up does not end", "process", cmd.id, "error", err)
		}
	}).Stop
}

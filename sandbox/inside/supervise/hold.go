package supervise

import (
	"context"
	"errors"
	"time"
)

// maxHold bounds a hold that nobody ends.
const maxHold = 30 * time.Second

// errNoHold says that a supervisor cannot hold names.
var errNoHold = errors.New("names cannot be held in this sandbox: no rules for files are kept in it")

// holder is a platform that can keep processes from renaming and linking.
type holder interface {
	// hold returns nil when it cannot.
	hold(atMost time.Duration) (release func() bool)
}

// holdParams name a hold; Milliseconds is for "hold" only.
type holdParams struct {
	Hold         uint64 `json:"hold"`
	Milliseconds int64  `json:"milliseconds,omitempty"`
}

// holdResult says whether a hold lasted until it was released.
type holdResult struct {
	Lasted bool `json:"lasted"`
}

// hold keeps everything inside from renaming and linking.
func (c *client) hold(p holdParams) (struct{}, error) {
	h, ok := c.platform.(holder)
	if !ok {
		return struct{}{}, errNoHold
	}
	release := h.hold(min(time.Duration(p.Milliseconds)*time.Millisecond, maxHold))
	if release == nil {
		return struct{}{}, errNoHold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds[p.Hold] = release
	return struct{}{}, nil
}

func (c *client) release(p holdParams) (holdResult, error) {
	c.mu.Lock()
	release := c.holds[p.Hold]
	delete(c.holds, p.Hold)
	c.mu.Unlock()
	return holdResult{release != nil && release()}, nil
}

// Hold implements sandbox.Holder.
func (h *Host) Hold(ctx context.Context, atMost time.Duration) (release func() bool, err error) {
	h.mu.Lock()
	h.last++
	p := holdParams{Hold: h.last, Milliseconds: atMost.Milliseconds()}
	h.mu.Unlock()
	if err := h.ctl.call(ctx, "hold", p, nil); err != nil {
		return nil, err
	}
	return func() bool {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), maxHold)
		defer done()
		var r holdResult
		err := h.ctl.call(ctx, "release", holdParams{Hold: p.Hold}, &r)
		return err == nil && r.Lasted
	}, nil
}

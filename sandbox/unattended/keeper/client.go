package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"gander.dev/gander/sandbox/outbound/ports"
)

// ErrNoKeeper is returned when no keeper of a run answers.
var ErrNoKeeper = errors.New("no keeper of the run answers")

// ErrNoLoop is returned for what needs a running loop while there is none.
var ErrNoLoop = errors.New("the loop does not run at the moment")

// ErrBusy is returned for what the loop cannot be told, as it has not got to what came before.
var ErrBusy = errors.New("the loop has not got to what it was told before: try again later, or stop the run")

// StopTime limits the end of a sandbox by its keeper, whatever the daemon does.
const StopTime = 45 * time.Second

// A Client talks to the keeper of a run. It is safe for concurrent use.
type Client struct {
	dir  Dir
	http *http.Client
}

// NewClient connects when it is used: the keeper may come and go.
func NewClient(d Dir) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		path, err := d.socket()
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{dir: d, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Status is how the run is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return c.status(ctx, http.MethodGet, "/status", nil)
}

// Ready waits until the keeper has made its first sandbox, or could not.
func (c *Client) Ready(ctx context.Context) (Status, error) {
	return c.status(ctx, http.MethodGet, "/ready", nil)
}

// Stop ends the loop and the sandbox, and returns when nothing of them is left. The
// keeper then sends what is not sent yet, and ends.
func (c *Client) Stop(ctx context.Context) error { return c.post(ctx, "/stop", nil) }

// Pause lets the loop finish its iteration and begin no other.
func (c *Client) Pause(ctx context.Context) error { return c.post(ctx, "/pause", nil) }

// Resume lets a paused loop go on.
func (c *Client) Resume(ctx context.Context) error { return c.post(ctx, "/resume", nil) }

// Step has a paused loop do one iteration.
func (c *Client) Step(ctx context.Context) error { return c.post(ctx, "/step", nil) }

// Cancel ends the running iteration.
func (c *Client) Cancel(ctx context.Context) error { return c.post(ctx, "/cancel", nil) }

// PromptChanged has the keeper fetch the prompt anew.
func (c *Client) PromptChanged(ctx context.Context) error { return c.post(ctx, "/prompt", nil) }

// Message is for the agent's next instruction.
func (c *Client) Message(ctx context.Context, text string) error {
	return c.post(ctx, "/message", map[string]string{"text": text})
}

// Ports carries out an order about the sandbox's ports, and returns what is open then.
func (c *Client) Ports(ctx context.Context, o ports.Order) (v ports.View, err error) {
	err = c.exchange(ctx, http.MethodPost, "/ports", o, &v)
	return v, err
}

// Follow returns when the keeper has ended, or ctx has; an error means that none answers.
func (c *Client) Follow(ctx context.Context) error {
	resp, err := c.send(ctx, http.MethodGet, "/alive", nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return nil
}

func (c *Client) post(ctx context.Context, path string, body any) error {
	_, err := c.status(ctx, http.MethodPost, path, body)
	return err
}

func (c *Client) status(ctx context.Context, method, path string, body any) (s Status, err error) {
	err = c.exchange(ctx, method, path, body, &s)
	return s, err
}

// exchange makes a request and reads its answer.
func (c *Client) exchange(ctx context.Context, method, path string, body, into any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxRequest)).Decode(into); err != nil {
		return fmt.Errorf("run %s: %w: its answer broke off: %w", c.dir.RunID, ErrNoKeeper, err)
	}
	return nil
}

// send makes a request; an answer that is not 200 is an error.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://keeper"+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("run %s: waiting for its keeper: %w", c.dir.RunID, ctx.Err())
		}
		return nil, fmt.Errorf("run %s: %w: %w", c.dir.RunID, ErrNoKeeper, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	err = errors.New(strings.TrimSpace(string(text)))
	switch resp.StatusCode {
	case http.StatusConflict:
		err = ErrNoLoop
	case http.StatusServiceUnavailable:
		err = ErrBusy
	case http.StatusUnprocessableEntity:
		return nil, fmt.Errorf("%w: %w", ErrPort, err)
	}
	return nil, fmt.Errorf("run %s: %w", c.dir.RunID, err)
}

// Await waits until a keeper of the run answers.
func (c *Client) Await(ctx context.Context) error {
	t := time.NewTicker(awaitPause)
	defer t.Stop()
	for {
		if _, err := c.Status(ctx); !errors.Is(err, ErrNoKeeper) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("run %s: %w in time", c.dir.RunID, ErrNoKeeper)
		case <-t.C:
		}
	}
}

// awaitPause is between two questions whether a keeper answers.
const awaitPause = 50 * time.Millisecond

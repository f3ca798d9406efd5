// Package client speaks to a control plane as a person: it starts and steers runs, and
// reads what they tell. follow.go reads on while they tell it.
//
// Everything that a control plane refuses is an [*Error], with its words; when nobody
// answers, the error wraps [ErrNobody].
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/loop"
)

// ErrNobody means that nothing answers at the address of the control plane.
var ErrNobody = errors.New("no control plane answers")

// Error is a refusal of the control plane.
type Error struct {
	Status int // of HTTP
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Options say where the control plane is.
type Options struct {
	// URL is its address ("http://127.0.0.1:3000"), Token the person's.
	URL, Token string
}

// Client is a connection to a control plane. It is safe for concurrent use.
type Client struct {
	url, token string
	http       *http.Client

	quiet time.Duration // without even a ping, until a stream counts as broken
	again time.Duration // the first wait until it is opened again
}

// answerTime is how long a control plane may take to begin its answer: starting a
// sandbox takes a while.
const answerTime = 150 * time.Second

// New returns the client of a control plane. Nothing is asked yet. The address must be
// one of http or https; proxies of the environment are not used, as the token is for the
// control plane alone.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the address of a control plane, which looks like http://127.0.0.1:3000", o.URL)
	}
	return &Client{
		url: u.Scheme + "://" + u.Host + strings.TrimRight(u.Path, "/"), token: o.Token,
		quiet: 3 * pingEvery, again: firstAgain,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
				ResponseHeaderTimeout: answerTime, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for nobody else
		},
	}, nil
}

// URL is the address of the control plane.
func (c *Client) URL() string { return c.url }

// Close closes connections that wait for further use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StartRequest is what a run is started with; what is empty is the control plane's choice.
type StartRequest struct {
	Agent     string      `json:"agentType"`
	Prompt    string      `json:"prompt,omitempty"` // the run's own; empty: the one of all runs
	Workspace string      `json:"workspace,omitempty"`
	Driver    string      `json:"sandbox,omitempty"`
	Model     string      `json:"model,omitempty"`
	Pace      float64     `json:"pace,omitempty"` // seconds
	Limits    loop.Limits `json:"limits"`
	// NoBudget starts a run that may use any number of tokens.
	NoBudget bool `json:"noBudget,omitempty"`
}

// Start starts a run and returns it.
func (c *Client) Start(ctx context.Context, r StartRequest) (controlplane.Run, error) {
	var started struct {
		RunID string `json:"runId"`
	}
	if err := c.call(ctx, http.MethodPost, "/api/sandbox/start", r, &started); err != nil {
		return controlplane.Run{}, err
	}
	return c.Run(ctx, started.RunID)
}

// ScheduleRequest is when runs begin, and what each is started with. One of Every, Cron and At
// is set.
type ScheduleRequest struct {
	StartRequest
	Every string `json:"every,omitempty"` // as 1h; the first run begins at once
	Cron  string `json:"cron,omitempty"`  // five fields, or a word such as @daily
	At    string `json:"at,omitempty"`    // as 22:00, or with a date
}

// Schedule has runs begin at times.
func (c *Client) Schedule(ctx context.Context, r ScheduleRequest) (controlplane.Schedule, error) {
	var s controlplane.Schedule
	return s, c.call(ctx, http.MethodPost, "/api/schedules", r, &s)
}

// Schedules returns all schedules, the next one first.
func (c *Client) Schedules(ctx context.Context) ([]controlplane.Schedule, error) {
	var all struct {
		Schedules []controlplane.Schedule `json:"schedules"`
	}
	return all.Schedules, c.call(ctx, http.MethodGet, "/api/schedules", nil, &all)
}

// Unschedule removes a schedule; runs that it has started go on.
func (c *Client) Unschedule(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/api/schedules/"+url.PathEscape(id), nil, nil)
}

// Ask puts a question and waits for the answer that a person gives on the page, until ctx ends.
func (c *Client) Ask(ctx context.Context, q notify.Question) (notify.Answer, error) {
	for {
		var a notify.Answer
		err := c.call(ctx, http.MethodPost, "/api/questions", q, &a)
		if err != nil || a.Option != "" || a.Action != "" {
			return a, err
		}
	}
}

// Steer has a run stop, pause, resume, step (one iteration, then pause) or cancel (its
// running iteration): verb is one of these words. It returns when that is under way, for
// stop when it is done.
func (c *Client) Steer(ctx context.Context, verb, runID string) error {
	return c.call(ctx, http.MethodPost, "/api/sandbox/"+verb, map[string]string{"runId": runID}, nil)
}

// Dismiss counts a run that was started elsewhere as ended.
func (c *Client) Dismiss(ctx context.Context, runID string) error {
	return c.call(ctx, http.MethodPost, "/api/runs/"+url.PathEscape(runID)+"/dismiss", nil, nil)
}

// Delete removes such a run with everything that was recorded of it.
func (c *Client) Delete(ctx context.Context, runID string) error {
	return c.call(ctx, http.MethodDelete, "/api/runs/"+url.PathEscape(runID), nil, nil)
}

// Say gives a run a message for its next instruction.
func (c *Client) Say(ctx context.Context, runID, text string) error {
	return c.call(ctx, http.MethodPut, "/api/mailbox/human?run="+url.QueryEscape(runID), map[string]string{"message": text}, nil)
}

// Run is one run.
func (c *Client) Run(ctx context.Context, id string) (controlplane.Run, error) {
	var r controlplane.Run
	return r, c.call(ctx, http.MethodGet, "/api/runs/"+url.PathEscape(id), nil, &r)
}

// pageSize is how much is asked for at once.
const pageSize = 500

// Runs are all runs, also those that have ended, the newest first.
func (c *Client) Runs(ctx context.Context) ([]controlplane.Run, error) {
	var all []controlplane.Run
	for {
		var page struct {
			Runs []controlplane.Run `json:"runs"`
		}
		if err := c.call(ctx, http.MethodGet, fmt.Sprintf("/api/runs?limit=%d&offset=%d", pageSize, len(all)), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Runs...)
		if len(page.Runs) < pageSize {
			return all, nil
		}
	}
}

// Events are the events of a run behind a number, at most a page of them in their
// order; last is the number of the run's newest.
func (c *Client) Events(ctx context.Context, runID string, after int64) (events []telemetry.Event, last int64, err error) {
	var page struct {
		Events []telemetry.Event `json:"events"`
		Last   int64             `json:"lastSeq"`
	}
	err = c.call(ctx, http.MethodGet, fmt.Sprintf("/api/telemetry/events?run=%s&after=%d&limit=%d", url.QueryEscape(runID), after, pageSize), nil, &page)
	return page.Events, page.Last, err
}

// ErrNoIteration means that a run has, or keeps, no iteration of a number.
var ErrNoIteration = errors.New("there is no such iteration")

// Before is the number of the event before the first one of an iteration of a run: from
// there on it can be read. It fails with ErrNoIteration.
func (c *Client) Before(ctx context.Context, runID string, iteration int64) (int64, error) {
	type row struct {
		ID  int64 `json:"id"`
		Seq int64 `json:"seq"`
	}
	for offset := 0; ; offset += pageSize {
		var page struct {
			Rows []row `json:"iterations"`
		}
		err := c.call(ctx, http.MethodGet, fmt.Sprintf("/api/telemetry/iterations?run=%s&limit=%d&offset=%d", url.QueryEscape(runID), pageSize, offset), nil, &page)
		if err != nil {
			return 0, err
		}
		for _, r := range page.Rows {
			if r.Seq == iteration {
				return c.beforeRow(ctx, r.ID)
			}
		}
		if len(page.Rows) < pageSize || page.Rows[len(page.Rows)-1].Seq < iteration {
			return 0, ErrNoIteration
		}
	}
}

func (c *Client) beforeRow(ctx context.Context, id int64) (int64, error) {
	var page struct {
		Events []struct {
			Seq int64 `json:"seq"`
		} `json:"events"`
	}
	if err := c.call(ctx, http.MethodGet, "/api/telemetry/iteration/"+strconv.FormatInt(id, 10)+"?limit=1", nil, &page); err != nil {
		return 0, err
	}
	if len(page.Events) == 0 {
		return 0, ErrNoIteration
	}
	return page.Events[0].Seq - 1, nil
}

// maxAnswer bounds an answer: a page of the largest events.
const maxAnswer = 128 << 20

// call makes a request with a JSON body, if any, and reads a JSON answer, if wanted.
func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: the answer of %s ends early: %w", ErrNobody, c.url, err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("what answers at %s is no control plane of this version: %w", c.url, err)
	}
	return nil
}

// send makes a request; an answer that is no success is an error.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w at %s: %w", ErrNobody, c.url, reason(err))
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusAccepted {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// reason is an error of net/http without the request, which the caller knows.
func reason(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// maxRefusal bounds the words of a refusal.
const maxRefusal = 64 << 10

func refusal(resp *http.Response) error {
	var said struct {
		Error string `json:"error"`
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // without words there is the status
	if json.Unmarshal(raw, &said) != nil || said.Error == "" {
		said.Error = "the control plane answered " + resp.Status
	}
	return &Error{Status: resp.StatusCode, Text: said.Error}
}

package opencode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"gander.dev/gander/sandbox"
)

// control is opencode's own HTTP server inside the sandbox. It tells what sub-agents do and
// takes the answers to their questions, which opencode's ACP server does not.
type control struct {
	http     *http.Client
	dir      string
	password string
}

const (
	// controlPort is the port at which opencode listens, unless something else does.
	controlPort = 4096
	// controlTime bounds a request, and the wait for the first event.
	controlTime = 10 * time.Second
	// eventLimit bounds an event, in bytes. A longer one is left out.
	eventLimit = 16 << 20
)

// reachable reports whether the host reaches what listens in a sandbox.
func reachable(ctx context.Context, sb sandbox.Ported) bool {
	_, err := sb.Listening(ctx)
	return err == nil
}

// newControl returns a client of the server in a sandbox that is reachable.
func newControl(sb sandbox.Ported, dir, password string) *control {
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _ = sb.CarryPort(context.Background(), controlPort, far) }() // ends with near
		return near, nil
	}
	return &control{dir: dir, password: password, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// errNotThere is the answer about what opencode does not have any more.
var errNotThere = errors.New("opencode does not know it")

// do sends a request. The caller closes the body of the answer.
func (c *control) do(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	at := url.URL{Scheme: "http", Host: "opencode", Path: path, RawQuery: url.Values{"directory": {c.dir}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), content)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("opencode", c.password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			return nil, errNotThere
		}
		return nil, fmt.Errorf("opencode answers %s with %s", path, resp.Status)
	}
	return resp.Body, nil
}

// post sends what needs no answer but that it was taken.
func (c *control) post(ctx context.Context, path string, body any) error {
	ctx, done := context.WithTimeout(ctx, controlTime)
	defer done()
	answer, err := c.do(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	return answer.Close()
}

// reply answers a question: once or reject.
func (c *control) reply(ctx context.Context, question, answer string) error {
	return c.post(ctx, "/permission/"+url.PathEscape(question)+"/reply", map[string]string{"reply": answer})
}

// abort ends what a session does.
func (c *control) abort(ctx context.Context, session string) error {
	return c.post(ctx, "/session/"+url.PathEscape(session)+"/abort", struct{}{})
}

// event is something that has happened in opencode.
type event struct {
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties"`
}

// events are the events from now on. They end with ctx.
type events struct {
	body io.ReadCloser
	r    *bufio.Reader
}

// watch returns when no event is missed any more.
func (c *control) watch(ctx context.Context) (*events, error) {
	ctx, stop := context.WithCancel(ctx)
	late := time.AfterFunc(controlTime, stop)
	body, err := c.do(ctx, http.MethodGet, "/event", nil)
	if err != nil {
		stop()
		return nil, err
	}
	e := &events{body: closer{body, stop}, r: bufio.NewReaderSize(body, 64<<10)}
	if _, err = e.next(); err != nil || !late.Stop() { // the first one says that it listens
		_ = e.body.Close()
		return nil, errors.Join(errors.New("opencode does not tell what it does"), err)
	}
	return e, nil
}

// closer is a body whose request is cancelled when it is closed.
type closer struct {
	io.ReadCloser
	stop func()
}

func (c closer) Close() error {
	c.stop()
	return c.ReadCloser.Close()
}

// next returns the next event.
func (e *events) next() (event, error) {
	for {
		line, err := e.line()
		if err != nil {
			return event{}, err
		}
		data, is := bytes.CutPrefix(line, []byte("data:"))
		var v event
		if is && json.Unmarshal(data, &v) == nil {
			return v, nil
		}
	}
}

// line returns the next line; empty for one that is too long.
func (e *events) line() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := e.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if long = long || len(line)+len(part) > eventLimit; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if err == nil {
			return line, nil
		}
	}
}

package router

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox/confine"
)

// Agents wait for a server that does not answer what they begin with, some for a minute and
// some for ever, and no prompt is answered meanwhile. gander waits less: the connection is
// ended, the person told, and the agent goes on without that server. It is tried again in the
// background. When it answers, the agent is opened anew before the next prompt, with its
// conversation, and has the server's tools.

// health holds how an MCP server of the editor does. The session's mu guards it.
type health struct {
	down     bool // it is not given to agents
	back     bool // it is down, and has answered since
	failures int
	slow     time.Duration // how long it is waited for; 0: Options.ServerPatience
}

const (
	// maxServerFailures bounds how often a server may fail in a session until it is not tried any more.
	maxServerFailures = 3
	// maxServerRetry bounds the time between two tries.
	maxServerRetry = 5 * time.Minute
	// maxProbe bounds a try: the first start of a server may have to download it. Early tries
	// are shorter, as one that hangs keeps the next from beginning.
	maxProbe = 2 * time.Minute
	// slowestServer bounds how long a server may take to answer and be given to an agent.
	slowestServer = 20 * time.Second
)

// patience returns how long agents may wait for a server. The session's mu is held.
func (m *servers) patience(v *server) time.Duration {
	return max(m.s.r.opts.ServerPatience, v.health.slow)
}

func unanswered(method string, patience time.Duration) string {
	return fmt.Sprintf("did not answer %s within %v (mcp.patience)", confine.Printable(method), patience)
}

// failed notes that a server cannot be used, says how it failed, and tries it again in the
// background.
func (m *servers) failed(v *server, how string) {
	s := m.s
	s.mu.Lock()
	again := v.health.down || s.closed
	v.health.down = true
	if !again {
		v.health.failures++
	}
	left := maxServerFailures - v.health.failures
	s.mu.Unlock()
	switch {
	case again:
	case left < 0:
		s.tell("warning", fmt.Sprintf("The MCP server %s %s. This thread goes on without its tools. It has failed %d times and is not tried again; mend it and open a new session.", v.Name, how, maxServerFailures+1))
	default:
		s.tell("warning", fmt.Sprintf("The MCP server %s %s. This thread goes on without its tools. gander tries it again, and says when the agent has it.", v.Name, how))
		s.spawn(func() { m.tryAgain(v) })
	}
}

// complains tells what is wrong with a server that has an address: that it cannot be used when
// it is for good, else once.
func (b *backend) complains(v *server) func(what string, forGood bool) {
	var once sync.Once
	return func(what string, forGood bool) {
		if forGood {
			if !strings.HasPrefix(what, "did not") {
				what = "does not work: " + what
			}
			b.s.servers.failed(v, fmt.Sprintf("(%s) %s", v.where(), what))
			return
		}
		once.Do(func() {
			b.s.tell("warning", fmt.Sprintf("The MCP server %s (%s) does not work: %s", v.Name, v.where(), what))
		})
	}
}

// tryAgain asks a server until it answers.
func (m *servers) tryAgain(v *server) {
	for pause := m.s.r.opts.ServerPatience / 2; ; pause = min(2*pause, maxServerRetry) {
		select {
		case <-time.After(pause):
		case <-m.s.ctx.Done():
			return
		}
		began := time.Now()
		err := m.probe(v, min(max(slowestServer, 4*pause), maxProbe))
		took := time.Since(began)
		if err == nil && took <= slowestServer {
			m.s.mu.Lock()
			v.health.back, v.health.slow = true, 2*took
			m.s.mu.Unlock()
			return
		}
		m.s.log.Debug("an MCP server still does not answer", "server", v.Name, "took", took, "err", err)
	}
}

// The requests of a probe, which every server answers.
const (
	probeHello = `{"jsonrpc":"2.0","id":"gander-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"gander","version":"1"}}}`
	probeReady = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	probeTools = `{"jsonrpc":"2.0","id":"gander-2","method":"tools/list"}`
)

// probe begins a conversation with a server as an agent does; it fails unless the server
// answers within a time.
func (m *servers) probe(v *server, atMost time.Duration) error {
	ctx, done := context.WithTimeout(m.s.ctx, atMost)
	defer done()
	if v.URL != "" {
		return v.probeAddress(ctx)
	}
	conn, err := m.run(ctx, v, func() {}, func(string) {})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	lines := json.NewDecoder(conn)
	for _, step := range [][]string{{probeHello}, {probeReady, probeTools}} {
		for _, line := range step {
			if _, err := conn.Write([]byte(line + "\n")); err != nil {
				return err
			}
		}
		for answered := false; !answered; {
			var got message
			if err := lines.Decode(&got); err != nil {
				return err
			}
			answered = got.answers()
		}
	}
	return nil
}

// probeAddress probes a server that has an address. It asks no more than the first
// request: an answer to that is one of a server that works.
func (v *server) probeAddress(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.URL, strings.NewReader(probeHello))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	for _, h := range v.Headers {
		req.Header.Set(h.Name, h.Value)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	begin := make([]byte, 1)
	if _, err := resp.Body.Read(begin); err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("it answers with %s", resp.Status)
	}
	return nil
}

// giveBack has the agent opened anew, with its conversation, when servers answer again.
func (t *turn) giveBack() {
	s := t.s
	var names []string
	s.mu.Lock()
	for _, v := range s.servers.all {
		if v.health.back {
			v.health.down, v.health.back = false, false
			names = append(names, v.Name)
		}
	}
	agent := s.agent.Name()
	s.mu.Unlock()
	if len(names) == 0 {
		return
	}
	s.restart(false)
	s.tell("info", fmt.Sprintf("MCP servers answer again: %s. %s is opened anew with them and goes on with this conversation.", strings.Join(names, ", "), agent))
}

// message holds the members of a message of MCP that are looked at.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// answers reports whether a message is an answer.
func (m *message) answers() bool { return len(m.ID) > 0 && m.Method == "" }

// asked returns the method and the id of a request that must be answered soon: tools may take
// their time, and what has no id has no answer.
func asked(raw []byte) (method, id string) {
	var m message
	if json.Unmarshal(raw, &m) != nil || m.Method == "" || m.Method == "tools/call" {
		return "", ""
	}
	return m.Method, string(m.ID)
}

// maxWatched bounds a message that is looked at, in bytes: what agents begin with is short.
const maxWatched = 64 << 10

// watched holds an agent's connection to a program, which is closed when that does not answer.
type watched struct {
	net.Conn
	patience time.Duration
	late     func(method string)

	in, out lineScan

	// mu guards waiting.
	mu      sync.Mutex
	waiting map[string]*time.Timer // by the id of the request
}

// watchAnswers closes a connection to a program when that does not answer a request within
// patience, and calls late then.
func watchAnswers(conn net.Conn, patience time.Duration, late func(method string)) net.Conn {
	return &watched{Conn: conn, patience: patience, late: late, waiting: map[string]*time.Timer{}}
}

// Write passes on what the agent sends, and notes its requests.
func (w *watched) Write(p []byte) (int, error) {
	w.out.scan(p, func(line []byte) {
		method, id := asked(line)
		if id == "" {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.waiting[id] == nil {
			w.waiting[id] = time.AfterFunc(w.patience, func() {
				w.late(method)
				_ = w.Close()
			})
		}
	})
	return w.Conn.Write(p)
}

// Read passes on what the program sends, and notes its answers. One that is too long to be
// looked at answers everything.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.in.scan(p[:n], func(line []byte) {
		var m message
		if json.Unmarshal(line, &m) == nil && m.answers() {
			w.answered(string(m.ID))
		} else if len(line) == maxWatched {
			w.answered("")
		}
	})
	return n, err
}

// Close implements net.Conn.
func (w *watched) Close() error {
	w.answered("")
	return w.Conn.Close()
}

// answered ends the waiting for an answer, or for all.
func (w *watched) answered(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for other, timer := range w.waiting {
		if id == "" || id == other {
			timer.Stop()
			delete(w.waiting, other)
		}
	}
}

// lineScan finds the lines of a stream, each cut after maxWatched bytes.
type lineScan struct{ begun []byte }

func (l *lineScan) scan(p []byte, line func([]byte)) {
	for len(p) > 0 {
		part, rest, ends := bytes.Cut(p, []byte{'\n'})
		l.begun = append(l.begun, part[:min(len(part), maxWatched-len(l.begun))]...)
		if ends {
			line(l.begun)
			l.begun = l.begun[:0]
		}
		p = rest
	}
}

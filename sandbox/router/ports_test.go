package router

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/ports"
)

// listeners fakes programs that listen in the sandboxes of a driver.
type listeners struct{ at atomic.Pointer[[]int] }

func (l *listeners) set(at ...int) { l.at.Store(&at) }

// Listening implements sandbox.Ported.
func (s *fakeSandbox) Listening(context.Context) ([]int, error) {
	if at := s.d.listeners.at.Load(); at != nil {
		return *at, nil
	}
	return nil, nil
}

// CarryPort implements sandbox.Ported; every port answers with its number.
func (s *fakeSandbox) CarryPort(_ context.Context, port int, conn net.Conn) error {
	_, _ = fmt.Fprint(conn, port)
	return conn.Close()
}

// answerAt returns what is said at a port of this machine; empty where nobody listens.
func answerAt(port int) string {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Minute)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	got, _ := io.ReadAll(c)
	return string(got)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// Ports are opened by what the person says, on loopback, and are closed with the session. A
// server that begins to listen is told of.
func TestPorts(t *testing.T) {
	named, asked, chosen := freePort(t), freePort(t), 0
	for chosen = 17000; answerAt(chosen) != ""; chosen++ {
	}
	r := newRigFor(t, acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: []byte(`{}`)}}, func(r *rig) {
		r.driver.isolated = true
		r.opts.Ports = []ports.Spec{{Port: 80, At: named}}
	})
	s := r.open(t)
	id := s.SessionID
	tells := func(what string) {
		t.Helper()
		r.editor.Wait(t, what, func() bool { return strings.Contains(r.said(id), what) })
	}
	r.wantStop(t, id, "hello", acp.StopEndTurn)
	tells(fmt.Sprintf("Open: port 80 inside is http://%s.localhost:%d, for every user of this machine.", strings.ToLower(string(id)), named))
	if got := answerAt(named); got != "80" {
		t.Errorf("a port that the configuration names: %q", got)
	}
	r.driver.listeners.set(5173, 40000)
	tells("Port 5173 listens inside. To open it on this machine: /ports open 5173")
	r.wantStop(t, id, "/ports", acp.StopEndTurn)
	if said := r.said(id); strings.Contains(said, "Port 40000") || !strings.Contains(said, "- port 40000 listens inside; `/ports open 40000`") {
		t.Errorf("of a port that the kernel hands out: %s", said)
	}
	r.wantStop(t, id, fmt.Sprintf("/ports open %d:5173", asked), acp.StopEndTurn)
	if got := answerAt(asked); got != "5173" {
		t.Errorf("a port that was opened: %q", got)
	}
	r.wantStop(t, id, fmt.Sprintf("/ports open %d:5174", asked), acp.StopEndTurn)
	for _, words := range []string{"/ports close 9", "/ports open x", "/ports list"} {
		r.wantStop(t, id, words, acp.StopEndTurn)
	}
	for _, want := range []string{"take another one, as in", "Port 9 was not open.", " is not a port: write it like 5173", " is neither open nor close"} {
		if !strings.Contains(r.said(id), want) {
			t.Errorf("not said: %s", want)
		}
	}
	r.mustSet(t, id, optionAgent, "swan") // another sandbox
	r.wantStop(t, id, "hello", acp.StopEndTurn)
	if got := answerAt(asked); got != "5173" {
		t.Errorf("the port in the sandbox of another agent: %q", got)
	}
	r.wantStop(t, id, "/ports close 5173", acp.StopEndTurn)
	if got := answerAt(asked); got != "" {
		t.Errorf("a port that was closed: %q", got)
	}
	r.mustSet(t, id, optionPorts, PortsListening)
	r.driver.listeners.set(5173, chosen)
	tells(fmt.Sprintf("Open: port %d inside is ", chosen))
	if got := answerAt(chosen); got != fmt.Sprint(chosen) {
		t.Errorf("a port that listens, where all are open: %q", got)
	}
	if got := answerAt(5173); got == "5173" {
		t.Error("a port is open that listened before that was chosen")
	}
	r.closeSession(t, id)
	if got := answerAt(named) + answerAt(chosen); got != "" {
		t.Errorf("after the session: %q", got)
	}
}

// Where a sandbox has no network of its own there is nothing to open.
func TestPortsAreThisMachines(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.Ports = []ports.Spec{{Port: 80, At: 17001}} })
	id := r.open(t).SessionID
	r.wantStop(t, id, "hello", acp.StopEndTurn)
	r.wantStop(t, id, "/ports", acp.StopEndTurn)
	for _, want := range []string{"Port 80 of the sandbox is not open: this sandbox has no network of its own", "/ports: this sandbox has no network of its own"} {
		if !strings.Contains(r.said(id), want) {
			t.Errorf("not said: %s, only %s", want, r.said(id))
		}
	}
}

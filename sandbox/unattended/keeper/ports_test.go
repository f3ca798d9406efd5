package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/telemetry"
)

// Listening implements sandbox.Ported.
func (b *fakeBox) Listening(context.Context) ([]int, error) { return b.driver.listening(), nil }

// CarryPort implements sandbox.Ported; every port answers with its number.
func (b *fakeBox) CarryPort(_ context.Context, port int, conn net.Conn) error {
	_, _ = fmt.Fprint(conn, port)
	return conn.Close()
}

// A run's ports are open that the person names, in the configuration or on the page, also when its
// sandbox is made again, and the page shows these and servers that begin to listen.
func TestPorts(t *testing.T) {
	at := [2]int{}
	for i := range at {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at[i] = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, obey)
	var looks atomic.Int32
	r.driver.listening = func() []int {
		if looks.Add(1) == 1 {
			return nil
		}
		return []int{80, 5173}
	}
	r.o.Ports = []ports.Spec{{Port: 80, At: at[0]}}
	r.start()
	shown := func(text string) func() bool {
		return func() bool {
			return r.plane.count(func(e telemetry.Event) bool { return e.Type == Notice && strings.Contains(e.Content, text) }) == 1
		}
	}
	await(t, "the open port", shown("Open: port 80 inside is http://"))
	await(t, "the other server", shown(`Port 5173 listens inside. To open it on this machine, use Ports on this page`))
	answers := func(at int) string {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", at))
		if err != nil {
			return ""
		}
		defer func() { _ = c.Close() }()
		got, _ := io.ReadAll(c)
		return string(got)
	}
	order := func(o ports.Order) ports.View {
		t.Helper()
		v, err := r.client.Ports(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if got := answers(at[0]); got != "80" {
		t.Errorf("the port of the configuration answers %q", got)
	}
	link := ports.Link{Port: 80, URL: fmt.Sprintf("http://loop-run1.localhost:%d", at[0]), Heard: true}
	if v := order(ports.Order{}); !slices.Equal(v.Open, []ports.Link{link}) || !slices.Equal(v.Listening, []int{5173}) {
		t.Errorf("open: %+v", v)
	}
	if v := order(ports.Order{Open: fmt.Sprintf("%d:5173", at[1])}); len(v.Open) != 2 || len(v.Listening) != 0 {
		t.Errorf("opened: %+v", v)
	}
	await(t, "the port that was opened", shown("Open: port 5173 inside is http://"))
	if _, err := r.client.Ports(t.Context(), ports.Order{Open: fmt.Sprintf("%d:9", at[1])}); !errors.Is(err, ErrPort) {
		t.Errorf("a port of this machine that is taken: %v", err)
	}
	if v := order(ports.Order{Close: 80}); len(v.Open) != 1 || answers(at[0]) != "" {
		t.Errorf("closed: %+v", v)
	}
	_ = r.driver.last().Close()
	await(t, "the next sandbox", func() bool { return r.driver.count() == 2 && answers(at[1]) == "5173" })
	if got := answers(at[0]); got != "" {
		t.Errorf("the port that was closed answers %q in the next sandbox", got)
	}
	r.stop()
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	if answers(at[1]) != "" {
		t.Error("the port is open after the run")
	}
}

// Where a sandbox has no network of its own there is nothing to open.
func TestPortsAreThisMachines(t *testing.T) {
	r := newRig(t, obey)
	r.start()
	if _, err := r.client.Ports(t.Context(), ports.Order{Open: "80"}); !errors.Is(err, ErrPort) || !strings.Contains(err.Error(), "no network of its own") {
		t.Error(err)
	}
}

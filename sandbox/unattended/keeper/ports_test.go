package keeper

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
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

// A run's ports are open that the person's configuration names, while its sandbox lasts, and the
// page shows these and servers that begin to listen.
func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	r := newRig(t, obey)
	looks := 0
	r.driver.listening = func() []int {
		if looks++; looks == 1 {
			return nil
		}
		return []int{80, 5173}
	}
	r.o.Ports = []ports.Spec{{Port: 80, At: at}}
	r.start()
	shown := func(text string) func() bool {
		return func() bool {
			return r.plane.count(func(e telemetry.Event) bool { return e.Type == Notice && strings.Contains(e.Content, text) }) == 1
		}
	}
	await(t, "the open port", shown("Open: port 80 inside is http://"))
	await(t, "the other server", shown(`Port 5173 listens inside. To open it in the next sandbox, add "5173" to sandbox.ports`))
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", at))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(c); string(got) != "80" {
		t.Errorf("the port answers %q", got)
	}
	_ = c.Close()
	r.stop()
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", at)); err == nil {
		_ = c.Close()
		t.Error("the port is open after the run")
	}
}

package sandboxtest

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/ports"
)

// portScript answers at a port of each loopback address that there is, and says which.
const portScript = `
import socket, sys, threading
def serve(family, host, port, text):
    l = socket.socket(family); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind((host, port)); l.listen()
    def run():
        while True:
            c, _ = l.accept(); c.sendall(text + c.recv(99)); c.close()
    threading.Thread(target=run).start()
up = []
for at in (socket.AF_INET, "127.0.0.1", 5173, b"four "), (socket.AF_INET6, "::1", 5174, b"six "):
    try: serve(*at); up.append(at[2])
    except OSError: pass # no IPv6
print(*up, flush=True)
`

// testPorts tests that a server inside is reached from the host at a port that is opened, and
// only there and then, and that none of gander's own is.
func testPorts(t *testing.T, d sandbox.Driver, owner int) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal("python3 is needed to listen inside; install it")
	}
	door := egress.New(egress.Options{})
	t.Cleanup(func() { _ = door.Close() })
	spec := Spec(t, owner)
	spec.Road, spec.Rules = door, &sandbox.Rules{Own: "/nowhere/.gooseignore"}
	spec.Doors = []sandbox.Door{{Name: "upper", Dial: pipeTo(upper)}}
	sb := Create(t, d, spec)
	ported, ok := sb.(sandbox.Ported)
	if !sb.Info().Isolated || !ok {
		t.Skip("the network is not closed off here")
	}
	if now, err := ported.Listening(t.Context()); err != nil || len(now) > 0 {
		t.Errorf("before anything listens: %v, %v", now, err)
	}
	p := StartCommand(t, sb, sandbox.Command{Args: []string{"python3", "-c", portScript}, Env: Env()})
	defer Kill(t, p)
	up := readLine(t, p.Stdout())
	if now, err := ported.Listening(t.Context()); err != nil || fmt.Sprint(now) != "["+up+"]" || !slices.Contains(now, 5173) {
		t.Errorf("listening: %v, %v, want %s", now, err, up)
	}
	six := ""
	if strings.Contains(up, "5174") {
		six = "six hello"
	}
	_, own, _ := net.SplitHostPort(sb.Info().Doors["upper"])
	ownPort, _ := strconv.Atoi(own)
	for _, tt := range []struct {
		port int
		want string
	}{{5173, "four hello"}, {5174, six}, {5175, ""}, {53, ""}, {ownPort, ""}} {
		at := FreePort(t)
		o, err := ports.Open(ported, ports.Spec{Port: tt.port, At: at}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		address := fmt.Sprintf("127.0.0.1:%d", at)
		if got := greet(address); got != tt.want {
			t.Errorf("port %d: %q, want %q", tt.port, got, tt.want)
		}
		if _, err := ports.Open(ported, o.Spec, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("one port of this machine is opened twice")
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if c, err := net.DialTimeout("tcp", address, time.Minute); err == nil {
			_ = c.Close()
			t.Errorf("port %d is open after it was closed", tt.port)
		}
	}
}

// greet returns the answer to a greeting; empty where nobody answers, which a client may learn
// while it connects.
func greet(address string) string {
	c, err := net.DialTimeout("tcp", address, time.Minute)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, "hello")
	got, _ := io.ReadAll(c)
	return string(got)
}

// FreePort returns a port of loopback at which nobody listens.
func FreePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

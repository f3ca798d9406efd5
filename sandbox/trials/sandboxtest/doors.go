package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
)

// dialScript connects to a port, sends a text, ends its side and prints the answer.
const dialScript = `
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
s.sendall(sys.argv[2].encode())
s.shutdown(socket.SHUT_WR)
got = b""
while True:
    b = s.recv(65536)
    if not b: break
    got += b
sys.stdout.write(got.decode())
`

func testDoors(t *testing.T, d sandbox.Driver, owner int) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal("python3 is needed to connect from inside; install it")
	}
	spec := Spec(t, owner)
	spec.Doors = []sandbox.Door{
		{Name: "upper", Dial: pipeTo(upper)},
		{Name: "broken", Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("nobody is there") }},
	}
	sb := Create(t, d, spec)
	for name, addr := range sb.Info().Doors {
		if host, _, err := net.SplitHostPort(addr); err != nil || host != "127.0.0.1" {
			t.Errorf("door %s is at %q", name, addr)
		}
	}
	connect := func(door, text string) (string, string) {
		_, port, _ := net.SplitHostPort(sb.Info().Doors[door])
		p := StartCommand(t, sb, sandbox.Command{Args: []string{"python3", "-c", dialScript, port, text}, Env: Env()})
		return readAll(t, p.Stdout()), readAll(t, p.Stderr())
	}
	for i := range 3 {
		// The answer is written after the end of the question has arrived.
		text := fmt.Sprintf("hello %d ", i) + strings.Repeat("abc", 20000)
		if got, errs := connect("upper", text); got != strings.ToUpper(text) {
			t.Errorf("through the door came %d bytes: %.80q %s", len(got), got, errs)
		}
	}
	if got, errs := connect("broken", "x"); got != "" || !strings.Contains(errs, "Error") && errs != "" {
		t.Errorf("a door without a host end: %q %q", got, errs)
	}
}

// pipeTo dials a server that is a function.
func pipeTo(serve func(net.Conn)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", l.Addr().String())
		if err != nil {
			return nil, err
		}
		server, err := l.Accept()
		if err != nil {
			return nil, err
		}
		go serve(server)
		return conn, nil
	}
}

// upper answers what was sent, in upper case, when all of it has come.
func upper(c net.Conn) {
	defer func() { _ = c.Close() }()
	text, err := io.ReadAll(c)
	if err == nil {
		_, _ = io.WriteString(c, strings.ToUpper(string(text)))
	}
}

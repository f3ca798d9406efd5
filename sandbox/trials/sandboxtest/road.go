package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/egress"
)

// roadScript has the functions by which a program reaches others as any does.
const roadScript = `
import os, socket, ssl, struct, sys, time
def say(host, port, text, listen=False):
    s = socket.create_connection((host, port), timeout=20)
    s.sendall(text if isinstance(text, bytes) else text.encode()); s.shutdown(socket.SHUT_WR)
    got = b""
    while True:
        b = s.recv(65536)
        if not b: break
        got += b
    return got.decode(errors="replace")
aside = 0
def untimed(f):
    global aside
    begun = time.time()
    got = f()
    aside += time.time() - begun
    return got
def tried(f):
    begun = time.time()
    try: got = f()
    except socket.gaierror as e: got = "no such name" if e.errno == socket.EAI_NONAME else repr(e)
    except OSError as e: got = "refused"
    return got if time.time() - begun - aside < 10 else "late: " + repr(got)
def greeting(name):
    out = ssl.MemoryBIO()
    try: ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError: return out.read()
def query(name, kind, server=("127.0.0.53", 53)):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10)
    q = struct.pack(">HHHHHH", 9, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0" + struct.pack(">HH", kind, 1)
    s.sendto(q, server)
    r = s.recv(4096)
    return "%d %d" % (r[3] & 15, struct.unpack(">H", r[6:8])[0])
`

// testRoad tests that allowed hosts are reached by plain TCP and others are no hosts, and
// that neither games with names nor taken ports get further.
func testRoad(t *testing.T, d sandbox.Driver, owner int) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal("python3 is needed to connect from inside; install it")
	}
	rules, err := egress.ParseRules([]string{"db.example:5432", "*.wild.example", "any.example:*", "10.9.8.7:70", "127.0.0.1:6000", "127.0.0.1:6001", "inner.example", "moves.example:*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lookedUp, notices []string
	door := egress.New(egress.Options{
		Rules:  rules,
		Notice: func(text string) { mu.Lock(); defer mu.Unlock(); notices = append(notices, text) },
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			mu.Lock()
			defer mu.Unlock()
			lookedUp = append(lookedUp, host)
			if host == "inner.example" || host == "moves.example" && slices.Index(lookedUp, host) < len(lookedUp)-1 {
				return []netip.Addr{netip.MustParseAddr("10.9.8.7")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
		Connect: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			switch to.Port() {
			case 1:
				return nil, errors.New("nobody is there")
			case 2: // speaks first
				return pipeTo(func(c net.Conn) { _, _ = io.WriteString(c, "hello"); _ = c.Close() })(ctx)
			}
			return pipeTo(func(c net.Conn) { defer func() { _ = c.Close() }(); echoFrom(c, to) })(ctx)
		},
	})
	t.Cleanup(func() { _ = door.Close() })
	spec := Spec(t, owner)
	counted := &countedRoad{Door: door}
	spec.Road, spec.Rules = counted, &sandbox.Rules{Own: "/nowhere/.gooseignore"}
	sb := Create(t, d, spec)
	if !sb.Info().Isolated {
		t.Skip("the network is not closed off here")
	}
	type exit struct{ name, script, want string }
	exits := []exit{
		{"a name", `say("db.example", 5432, "x")`, "X from 93.184.215.14:5432"},
		{"another port of it", `say("db.example", 5433, "x")`, "refused"},
		{"a wildcard", `say("a.wild.example", 443, "x")`, "X from 93.184.215.14:443"},
		{"below a wildcard only", `say("wild.example", 443, "x")`, "no such name"},
		{"any port", `say("any.example", 40000, "x")`, "X from 93.184.215.14:40000"},
		{"who speaks first", `socket.create_connection(("any.example", 2), 20).recv(9).decode()`, "hello"},
		{"nobody there", `say("any.example", 1, "x")`, "refused"},
		{"another name", `say("other.example", 443, "x")`, "no such name"},
		{"a name that leads to this network", `say("inner.example", 80, "x")`, "refused"},
		{"an address", `say("10.9.8.7", 70, "x")`, "X from 10.9.8.7:70"},
		{"another port of the address", `say("10.9.8.7", 71, "x")`, "refused"},
		{"an address of a service for metadata", `say("169.254.169.254", 80, "x")`, "refused"},
		{"by IPv6", `say("::ffff:10.9.8.7", 70, "x")`, "X from 10.9.8.7:70"},
		{"this machine", `say("127.0.0.1", 6000, "x")`, "X from 127.0.0.1:6000"},
		{"this machine, by name", `say("localhost", 6000, "x")`, "X from 127.0.0.1:6000"},
		{"another port of this machine", `say("127.0.0.1", 6002, "x")`, "refused"},
		{"an address of no name", `say("127.64.200.200", 5432, "x")`, "refused"},
		{"the route of nothing", `say("127.96.200.200", 5432, "x")`, "refused"},
		{"text of a known name", `query("db.example", 16)`, "0 0"},
		{"an address of a known name", `query("db.example", 1)`, "0 1"},
		{"text of another", `query("c2VjcmV0.other.example", 16)`, "3 0"},
		{"a long name", `query(".".join(["a" * 63] * 3 + ["example"]), 1)`, "3 0"},
		{"the host's resolver", `query("db.example", 1, ("10.255.255.53", 53))`, "refused"},
		{"a wildcard's names do not push out others", `(lambda a: untimed(lambda: [query("h%d.wild.example" % i, 1) for i in range(3000)]) and socket.gethostbyname("any.example") == a and say("any.example", 443, "x"))(socket.gethostbyname("any.example"))`, "X from 93.184.215.14:443"},
		{"a name that leads to this network the second time", `(say("moves.example", 5000, "x"), tried(lambda: say("moves.example", 5000, "x")))`, "('X from 93.184.215.14:5000', 'refused')"},
		{"TLS for the name, and for another", `(say("any.example", 443, greeting("any.example")).endswith("93.184.215.14:443"), tried(lambda: say("any.example", 443, greeting("other.example"))) in ("", "refused"))`, "(True, True)"},
		{"a Host that differs", `say("any.example", 80, "GET / HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n").split("\r\n")[0]`, "HTTP/1.1 403 Forbidden"},
		{"no name's address is another's", `len({socket.gethostbyname("n%d.wild.example" % i) for i in range(100)})`, "100"},
		{"the resolver's port is taken", `socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.53", 53)) or "taken"`, "refused"},
	}
	if os.Getenv("GANDER_EVERYWHERE") != "" { // it fills the table of names
		exits = append(exits, exit{"an address that its name has lost", `(lambda a: untimed(lambda: [query("g%d.wild.example" % i, 1) for i in range(5000)]) and (tried(lambda: say(a, 443, "x")), tried(lambda: say("first.wild.example", 443, "x"))))(socket.gethostbyname("first.wild.example"))`, "('refused', 'X from 93.184.215.14:443')"})
	}
	for _, tt := range exits {
		t.Run(tt.name, func(t *testing.T) {
			p := StartCommand(t, sb, sandbox.Command{Args: []string{"python3", "-c", roadScript + "print(tried(lambda: " + tt.script + "))"}, Env: Env()})
			if got, errs := readAll(t, p.Stdout()), readAll(t, p.Stderr()); strings.TrimSpace(got) != tt.want {
				t.Errorf("%q, want %q %s", got, tt.want, errs)
			}
		})
	}
	// A listener inside is reached there, at whatever address, and takes nothing that is
	// for a host.
	const inside = `
import threading
def serve(host, port):
    l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind((host, port)); l.listen()
    def one():
        while True:
            c, _ = l.accept(); c.recv(9); c.sendall(b"inside"); c.close()
    threading.Thread(target=one, daemon=True).start()
    return l
`
	for _, tt := range []exit{
		{"at an allowed port", `l = serve("127.0.0.1", 6001); print(say("127.0.0.1", 6001, "x")); l.close()`, "inside"},
		{"at any address", `serve("0.0.0.0", 6001); print(say("127.0.0.1", 6001, "x"))`, "inside"},
		{"at a port of a name", `serve("0.0.0.0", 5432); print(say("db.example", 5432, "x"))`, "X from 93.184.215.14:5432"},
		{"at the address of a name", `serve(socket.gethostbyname("db.example"), 5432); print(say("db.example", 5432, "x"))`, "X from 93.184.215.14:5432"},
	} {
		t.Run("who listens "+tt.name, func(t *testing.T) {
			p := StartCommand(t, sb, sandbox.Command{Args: []string{"python3", "-c", roadScript + inside + tt.script}, Env: Env()})
			if got, errs := readAll(t, p.Stdout()), readAll(t, p.Stderr()); strings.TrimSpace(got) != tt.want {
				t.Errorf("%q, want %q %s", got, tt.want, errs)
			}
		})
	}
	t.Run("the host is asked about a name once a second", func(t *testing.T) {
		p := StartCommand(t, sb, sandbox.Command{Args: []string{"python3", "-c", roadScript + `print(len({socket.gethostbyname("once.wild.example") for i in range(100)}))`}, Env: Env()})
		got, errs := readAll(t, p.Stdout()), readAll(t, p.Stderr())
		if asked := counted.once.Load(); strings.TrimSpace(got) != "1" || asked == 0 || asked > 50 {
			t.Errorf("%q %s, asked %d times", got, errs, asked)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		const many = `
ss = [socket.create_connection(("any.example", 5000 + i % 7), 60) for i in range(1000)]
for s in ss: s.settimeout(60); s.sendall(b"x"); s.shutdown(socket.SHUT_WR)
print(sum(s.recv(99).startswith(b"X from") for s in ss))
`
		p := StartCommand(t, sb, sandbox.Command{Args: []string{"python3", "-c", roadScript + "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))" + many}, Env: Env()})
		begun := time.Now()
		if got, errs := readAll(t, p.Stdout()), readAll(t, p.Stderr()); strings.TrimSpace(got) != "1000" {
			t.Errorf("%q %s", got, errs)
		}
		t.Logf("1000 connections in %s", time.Since(begun))
	})
	mu.Lock()
	defer mu.Unlock()
	for _, host := range lookedUp {
		if !slices.Contains([]string{"db.example", "a.wild.example", "any.example", "inner.example", "moves.example", "first.wild.example"}, host) {
			t.Errorf("%s was looked up", host)
		}
	}
	for _, want := range []string{
		"may not reach other.example: no rule of policy.network allows it. To allow it in this project: gander policy allow other.example",
		"127.0.0.1:6001 is reached inside the sandbox",
	} {
		if !slices.ContainsFunc(notices, func(said string) bool { return strings.Contains(said, want) }) {
			t.Errorf("not said: %s, only %s", want, strings.Join(notices, "\n"))
		}
	}
}

// countedRoad counts how often it is asked about once.wild.example.
type countedRoad struct {
	*egress.Door
	once atomic.Int64
}

func (r *countedRoad) Known(ctx context.Context, name string, port int) bool {
	if name == "once.wild.example" {
		r.once.Add(1)
	}
	return r.Door.Known(ctx, name, port)
}

// echoFrom answers in upper case, with the address that was connected to.
func echoFrom(c net.Conn, to netip.AddrPort) {
	text, err := io.ReadAll(c)
	if err == nil {
		_, _ = fmt.Fprintf(c, "%s from %s", strings.ToUpper(string(text)), to)
	}
}

package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// A trap is a listener outside the sandbox that should hear nothing.
type trap struct {
	addr string
	// mu guards heard.
	mu    sync.Mutex
	heard int
}

func (p *trap) hear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard++
}

func (p *trap) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

func tcpTrap(t *testing.T, host string) *trap {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	p := &trap{addr: l.Addr().String()}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.hear()
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); done.Wait() })
	return p
}

func udpTrap(t *testing.T, host string) *trap {
	t.Helper()
	c, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	p := &trap{addr: c.LocalAddr().String()}
	var done sync.WaitGroup
	done.Go(func() {
		for b := make([]byte, 100); ; {
			if _, _, err := c.ReadFrom(b); err != nil {
				return
			}
			p.hear()
		}
	})
	t.Cleanup(func() { c.Close(); done.Wait() })
	return p
}

// outsideAddress is an address of this machine that is not loopback; a machine
// without one gets the next best, another loopback address.
func outsideAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Log("this machine has no address but loopback")
	return "127.0.0.2"
}

// Nothing leaves: listeners on the host's loopback and on another of its
// addresses hear nothing from inside, while the model is reached all along.
func TestNothingLeaves(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		outside := outsideAddress(t)
		traps := map[string][]*trap{
			"tcp": {tcpTrap(t, "127.0.0.1"), tcpTrap(t, outside)},
			"udp": {udpTrap(t, "127.0.0.1"), udpTrap(t, outside)},
		}
		model := &trap{addr: strings.TrimPrefix(w.host, "http://")}
		traps["tcp"] = append(traps["tcp"], model) // its own address is not the way to it
		knock := knocks(t, traps)

		// On the host the same command is heard, so the traps work.
		if out, err := exec.CommandContext(soon(t), "bash", "-c", knock).CombinedOutput(); err != nil {
			t.Fatalf("knocking on the host: %v\n%s", err, out)
		}
		for _, p := range append(traps["tcp"][:2:2], traps["udp"]...) {
			eventually(t, "the trap at "+p.addr+" to hear the host", func() bool { return p.count() > 0 })
		}
		before := heard(traps)

		e := w.gander(nil)
		e.initialize()
		s := e.session(w.mkdir("project"))
		turn := s.prompt(script(t, w.shell(knock+"; cat /proc/net/dev; echo knocked"), says("done"))).done("end_turn")
		tool, _ := turn.tool(0)
		if text := tool.text(); strings.Contains(text, "CONNECTED") || !strings.Contains(text, "knocked") {
			t.Errorf("from inside: %s", text)
		}
		if after := heard(traps); after != before {
			t.Errorf("before the session the traps had heard %s, after it %s", before, after)
		}
	})
}

// knocks is a command that tries every trap, without needing a program but bash.
func knocks(t *testing.T, traps map[string][]*trap) string {
	t.Helper()
	var b strings.Builder
	for _, kind := range []string{"tcp", "udp"} {
		for _, p := range traps[kind] {
			host, port, err := net.SplitHostPort(p.addr)
			if err != nil {
				t.Fatal(err)
			}
			says := "CONNECTED"
			if kind == "udp" {
				says = "sent" // a datagram can be sent to nowhere
			}
			fmt.Fprintf(&b, "timeout 3 bash -c 'echo hello > /dev/%s/%s/%s' 2>/dev/null && echo %s %s %s\n", kind, host, port, says, kind, p.addr)
		}
	}
	b.WriteString("true")
	return b.String()
}

func heard(traps map[string][]*trap) string {
	var b strings.Builder
	for _, kind := range []string{"tcp", "udp"} {
		for _, p := range traps[kind] {
			fmt.Fprintf(&b, "%s %s: %d; ", kind, p.addr, p.count())
		}
	}
	return b.String()
}

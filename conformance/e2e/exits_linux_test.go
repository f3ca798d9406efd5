package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The network that the exits lead to: documentation addresses behind a device of the
// test, so that nothing else on the machine sends there.
const (
	exitIPv4 = "198.51.100.2"
	exitIPv6 = "2001:db8:6::2"
)

// exitPort and exitMark are the port and the content of attempts, where these have one.
const (
	exitPort = 4711
	exitMark = "exits-71f3"
)

// metadata are the addresses at which clouds tell machines their secrets. The control's
// packets there leave by whatever device leads to them.
var metadata = []string{"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"}

// farNetwork makes a network namespace behind a pair of devices and counts every packet
// of the catalogue that leaves this machine, by any of its devices.
func farNetwork(t *testing.T) *exitCount {
	t.Helper()
	needRoot(t)
	_, err := exec.LookPath("ip")
	need(t, err == nil, "ip (the package iproute2)")
	name := fmt.Sprintf("gx%d", os.Getpid()%100000)
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(soon(t), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v %s", strings.Join(args, " "), err, out)
		}
	}
	ip("netns", "add", name)
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil { // its device goes with it
			t.Errorf("removing the network: %v %s", err, out)
		}
	})
	ip("link", "add", name+"a", "type", "veth", "peer", "name", name+"b", "netns", name)
	ip("addr", "add", "198.51.100.1/24", "dev", name+"a")
	ip("-6", "addr", "add", "2001:db8:6::1/64", "dev", name+"a", "nodad")
	ip("link", "set", name+"a", "up")
	ip("-n", name, "addr", "add", exitIPv4+"/24", "dev", name+"b")
	ip("-n", name, "-6", "addr", "add", exitIPv6+"/64", "dev", name+"b", "nodad")
	ip("-n", name, "link", "set", name+"b", "up")
	// Both ends know each other for good: else the kernels ask again, by themselves, a
	// while after the last packet.
	near, far := "02:00:00:00:00:01", "02:00:00:00:00:02"
	ip("link", "set", name+"a", "address", near)
	ip("-n", name, "link", "set", name+"b", "address", far)
	ip("-6", "route", "replace", "fd00:ec2::254", "dev", name+"a") // where a network has it, it answers no question for it
	for _, to := range []string{exitIPv4, exitIPv6, "fd00:ec2::254"} {
		ip("neigh", "replace", to, "lladdr", far, "dev", name+"a", "nud", "permanent")
	}
	for _, to := range []string{"198.51.100.1", "2001:db8:6::1"} {
		ip("-n", name, "neigh", "replace", to, "lladdr", near, "dev", name+"b", "nud", "permanent")
	}
	devices, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	count := &exitCount{to: map[string]int{}}
	for _, d := range devices {
		if d.Flags&net.FlagLoopback == 0 && d.Flags&net.FlagUp != 0 {
			countPackets(t, d, count)
		}
	}
	return count
}

// exitCount is how many packets of the catalogue were seen outside, by where they go.
type exitCount struct {
	// mu guards to.
	mu sync.Mutex
	to map[string]int
}

func (c *exitCount) add(to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to[to]++
}

// of is how many went to an address; empty is all.
func (c *exitCount) of(to string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to != "" {
		return c.to[to]
	}
	all := 0
	for _, n := range c.to {
		all += n
	}
	return all
}

// countPackets counts the frames of the catalogue on a device.
func countPackets(t *testing.T, nic net.Interface, count *exitCount) {
	t.Helper()
	const all = 0x0300 // ETH_P_ALL in network order
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: all, Ifindex: nic.Index}); err != nil {
		t.Fatal(err)
	}
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 100_000})
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		frame := make([]byte, 2048)
		for {
			n, _, err := syscall.Recvfrom(fd, frame, 0)
			if err == nil {
				if to := bound(string(frame[:n])); to != "" {
					count.add(to)
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	t.Cleanup(func() { close(done); wg.Wait(); _ = syscall.Close(fd) })
}

// bound says where a frame of the catalogue is on its way to, which may be that it has
// the catalogue's mark; empty for all others. What a machine itself asks metadata services
// is for other ports.
func bound(frame string) string {
	for _, to := range []string{exitIPv4, exitIPv6} {
		if strings.Contains(frame, packed(to)) {
			return to
		}
	}
	for _, to := range metadata {
		_, behind, found := strings.Cut(frame, packed(to))
		if found && len(behind) >= 4 && behind[2:4] == string([]byte{exitPort >> 8, exitPort & 255}) { // behind the port it is from
			return to
		}
	}
	if strings.Contains(frame, exitMark) {
		return exitMark
	}
	return ""
}

// packed is an address as it is in packets.
func packed(address string) string { return string(netip.MustParseAddr(address).AsSlice()) }

// No packet leaves, whatever is tried: the catalogue of exits runs on the machine,
// where its packets are counted, and then in sandboxes, where none is; also with a
// door to another host.
func TestExits(t *testing.T) {
	program := filepath.Join(staged.dir, "exits")
	build := exec.CommandContext(soon(t), "go", "build", "-o", program, "./testdata/exits")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the catalogue: %v\n%s", err, out)
	}
	packets := farNetwork(t)
	socket := filepath.Join(staged.dir, "outside.sock")
	abstract := fmt.Sprintf("gander-exits-%d", os.Getpid())
	knocks := &trap{}
	for _, name := range []string{socket, "@" + abstract} {
		listenUnix(t, name, knocks)
	}
	site, visits := listenHTTP(t, outsideAddress(t))
	named, names := listenHTTP(t, "127.0.0.1")
	name := "localhost:" + named[strings.LastIndexByte(named, ':')+1:]
	args := []string{exitIPv4, exitIPv6, socket, abstract, site, name}

	control := exec.CommandContext(soon(t), program, args...)
	control.Dir = t.TempDir()
	out, err := control.CombinedOutput()
	if err != nil {
		t.Fatalf("outside: %v\n%s", err, out)
	}
	eventually(t, "the packets of the control to be counted", func() bool { return packets.of("") >= 10 && knocks.count() == 2 })
	for _, must := range []string{"UDP IPv4", "UDP IPv6", "DNS IPv4", "UNIX socket", "abstract UNIX socket", "raw ICMP", "raw IP", "packet socket", "a name of an address that is not public"} {
		if !strings.Contains(string(out), must+": OUT\n") {
			t.Errorf("outside, %q did not get out: the attempt proves nothing\n%s", must, out)
		}
	}
	for _, to := range metadata {
		unreachable := regexp.MustCompile(regexp.QuoteMeta("metadata at "+to+", by a port of the test: ") + ".*(unreachable|no route|cannot assign)").Match(out)
		if packets.of(to) == 0 && !unreachable {
			t.Errorf("outside, no packet to %s is seen: it leaves where nothing counts\n%s", to, out)
		}
	}
	if n := visits.count(); n != 2 {
		t.Errorf("outside, %d visits to the site that redirects, want 2\n%s", n, out)
	}

	for name, config := range map[string]string{
		"model only": `{"sandbox": {"image": "debian:bookworm-slim"}}`,
		"a door":     fmt.Sprintf(`{"sandbox": {"image": "debian:bookworm-slim"}, "policy": {"network": {"allow": ["example.com", %q, %q]}}}`, site, name),
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range spots(t) { // one after the other: the machine's packets are counted
				s.run(t, func(t *testing.T, w *world) {
					w.write(w.mkdir("gander"), "config.json", config)
					project := w.mkdir("project")
					if err := copyFile(program, filepath.Join(project, "exits")); err != nil {
						t.Fatal(err)
					}
					w.own(filepath.Join(project, "exits"))
					before, knocked, visited, asked := packets.of(""), knocks.count(), visits.count(), names.count()
					command := append([]string{needGander(t), "sandbox", "exec", "--sandbox", w.cell.driver.name, "--cwd", project, "--", "./exits"}, args...)
					said, code := w.run(t, w.ganderEnv(nil), command...)
					if code != 0 || !strings.Contains(said, "all tried") {
						t.Fatalf("inside, the catalogue ended with %d:\n%s", code, said)
					}
					if n := packets.of("") - before; n != 0 {
						t.Errorf("%d packets left:\n%s", n, said)
					}
					if n := knocks.count() - knocked; n != 0 {
						t.Errorf("%d connections to sockets outside:\n%s", n, said)
					}
					if n := names.count() - asked; n != 0 {
						t.Errorf("%d visits by a name of an address that is not public:\n%s", n, said)
					}
					door, redirects := strings.Contains(config, "allow"), 0
					if door {
						redirects = 2
					}
					if n := visits.count() - visited; n != redirects {
						t.Errorf("%d visits to the site that redirects, want %d:\n%s", n, redirects, said)
					}
					if n := strings.Count(said, ": 403 Forbidden: "); door && n != 3 {
						t.Errorf("%d of 3 attempts through an allowed host were refused by the door:\n%s", n, said)
					}
					for line := range strings.Lines(said) {
						if strings.HasSuffix(line, ": OUT\n") {
							t.Errorf("inside: %s", line)
						}
					}
				})
			}
		})
	}
}

// listenHTTP serves at an address of this machine, and counts visits. It redirects to
// what stands behind /to/.
func listenHTTP(t *testing.T, host string) (string, *trap) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	visits := &trap{addr: l.Addr().String()}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits.hear()
		if to, ok := strings.CutPrefix(r.URL.Path, "/to/"); ok {
			http.Redirect(w, r, "http://"+to, http.StatusFound)
		}
	}))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return visits.addr, visits
}

// listenUnix counts connections to a UNIX socket that everybody may use.
func listenUnix(t *testing.T, name string, p *trap) {
	t.Helper()
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(name, "@") {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.hear()
			_ = c.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
}

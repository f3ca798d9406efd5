package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// The network that the exits lead to: documentation addresses behind a device of the
// test, so that nothing else on the machine sends there.
const (
	exitIPv4 = "198.51.100.2"
	exitIPv6 = "2001:db8:6::2"
)

// farNetwork makes a network namespace behind a pair of devices and counts every
// packet that goes there from this machine.
func farNetwork(t *testing.T) *atomic.Int64 {
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
	for _, to := range []string{exitIPv4, exitIPv6} {
		ip("neigh", "replace", to, "lladdr", far, "dev", name+"a", "nud", "permanent")
	}
	for _, to := range []string{"198.51.100.1", "2001:db8:6::1"} {
		ip("-n", name, "neigh", "replace", to, "lladdr", near, "dev", name+"b", "nud", "permanent")
	}
	return countPackets(t, name+"a")
}

// countPackets counts the frames on a device that are for the far network: IPv4 and
// IPv6 to its addresses, and questions for who has them.
func countPackets(t *testing.T, device string) *atomic.Int64 {
	t.Helper()
	nic, err := net.InterfaceByName(device)
	if err != nil {
		t.Fatal(err)
	}
	const all = 0x0300 // ETH_P_ALL in network order
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: all, Ifindex: nic.Index}); err != nil {
		t.Fatal(err)
	}
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 100_000})
	count := new(atomic.Int64)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		frame := make([]byte, 2048)
		for {
			n, _, err := syscall.Recvfrom(fd, frame, 0)
			if err == nil && bound(frame[:n]) {
				count.Add(1)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	t.Cleanup(func() { close(done); wg.Wait(); _ = syscall.Close(fd) })
	return count
}

// bound reports whether a frame is on its way to the far network. What the kernel
// says of its own accord when a device comes up, to groups, is not.
func bound(frame []byte) bool {
	text := string(frame)
	return strings.Contains(text, string(net.ParseIP(exitIPv4).To4())) || strings.Contains(text, string(net.ParseIP(exitIPv6))) || strings.Contains(text, "exits")
}

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
	args := []string{exitIPv4, exitIPv6, socket, abstract}

	control := exec.CommandContext(soon(t), program, args...)
	control.Dir = t.TempDir()
	out, err := control.CombinedOutput()
	if err != nil {
		t.Fatalf("outside: %v\n%s", err, out)
	}
	eventually(t, "the packets of the control to be counted", func() bool { return packets.Load() >= 10 && knocks.count() == 2 })
	for _, must := range []string{"UDP IPv4", "UDP IPv6", "DNS IPv4", "UNIX socket", "abstract UNIX socket", "raw ICMP", "raw IP", "packet socket"} {
		if !strings.Contains(string(out), must+": OUT\n") {
			t.Errorf("outside, %q did not get out: the attempt proves nothing\n%s", must, out)
		}
	}

	for _, d := range drivers {
		for _, uid := range []int{0, ordinaryUser} {
			for name, config := range map[string]string{
				"model only": `{"sandbox": {"image": "debian:bookworm-slim"}}`,
				"a door":     `{"sandbox": {"image": "debian:bookworm-slim"}, "policy": {"network": {"allow": ["example.com"]}}}`,
			} {
				t.Run(fmt.Sprintf("%s as %d, %s", d.name, uid, name), func(t *testing.T) {
					d.need(t)
					w := newWorld(t, cell{agents[0], d}, uid)
					w.write(w.mkdir("gander"), "config.json", config)
					project := w.mkdir("project")
					if err := copyFile(program, filepath.Join(project, "exits")); err != nil {
						t.Fatal(err)
					}
					w.own(filepath.Join(project, "exits"))
					before, knocked := packets.Load(), knocks.count()
					command := append([]string{needGander(t), "sandbox", "exec", "--sandbox", d.name, "--cwd", project, "--", "./exits"}, args...)
					said, code := w.run(t, w.ganderEnv(nil), command...)
					if code != 0 || !strings.Contains(said, "all tried") {
						t.Fatalf("inside, the catalogue ended with %d:\n%s", code, said)
					}
					if n := packets.Load() - before; n != 0 {
						t.Errorf("%d packets left:\n%s", n, said)
					}
					if n := knocks.count() - knocked; n != 0 {
						t.Errorf("%d connections to sockets outside:\n%s", n, said)
					}
					for line := range strings.Lines(said) {
						if strings.HasSuffix(line, ": OUT\n") {
							t.Errorf("inside: %s", line)
						}
					}
				})
			}
		}
	}
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

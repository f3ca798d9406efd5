//go:build unix

package probe

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/toolchains"
)

// bait is what there is outside to be reached: files, listeners, a process.
type bait struct {
	base, secret, executable string
	facts                    Facts
	closers                  []io.Closer
	temporary, shared        string // files of the host in its temporary directories
	wg                       sync.WaitGroup
	victim                   *exec.Cmd
	victimIn                 io.Closer
	// mu guards told, what listeners have heard.
	mu   sync.Mutex
	told []byte
}

// maxTold bounds what is kept of what the listeners hear.
const maxTold = 1 << 20

func newBait(base, secret, executable string) (_ *bait, err error) {
	b := &bait{base: base, secret: secret, executable: executable, facts: Facts{
		Beside: filepath.Join(base, "beside"), Ports: map[string]int{}, Abstract: "gander-probe-" + rand.Text(), VictimName: "victim-" + rand.Text(),
	}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	for _, step := range []func() error{b.files, b.listen, b.renew} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// home returns the person's: not below Beside, as what is shown of it makes directories above it in a sandbox.
func (b *bait) home() string { return filepath.Join(filepath.Dir(b.facts.Beside), "person", "home") }

// files lays out what a person has beside the project.
func (b *bait) files() error {
	write := func(path string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(b.secret+"\n"), 0o644)
	}
	paths := []string{b.facts.Beside + "/secret", b.facts.Beside + "/probe-found"}
	for _, name := range []string{
		".ssh/id_ed25519", ".netrc", ".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".bash_history", ".gnupg/key", ".cargo/credentials.toml",
		".m2/settings.xml", ".npmrc", ".pypirc", ".config/pip/pip.conf", ".gem/credentials", ".gradle/gradle.properties", ".yarnrc.yml", "../state/caches/other/files/npm/key", "../state/caches/mine/x",
	} {
		paths = append(paths, filepath.Join(b.home(), name))
	}
	for _, path := range paths {
		if err := write(path); err != nil {
			return err
		}
	}
	if err := b.toolchains(); err != nil {
		return err
	}
	for dir, at := range map[string]*string{os.TempDir(): &b.temporary, "/dev/shm": &b.shared} {
		f, err := os.CreateTemp(dir, "gander-probe-*")
		if err != nil {
			continue // there is none, or it is not ours to write to
		}
		_, err = f.WriteString(b.secret + "\n")
		if *at = f.Name(); errors.Join(err, f.Chmod(0o644), f.Close()) != nil {
			return err
		}
	}
	return nil
}

// toolchains lays out toolchains of the person's, with links to what is beside them.
func (b *bait) toolchains() error {
	at := func(name string) string { return filepath.Join(b.home(), name) }
	return errors.Join(
		os.MkdirAll(at(".cargo/bin"), 0o755), os.WriteFile(at(".cargo/bin/cargo"), []byte("#!/bin/sh\n"), 0o755), os.Symlink("../credentials.toml", at(".cargo/bin/key")),
		os.MkdirAll(at(".nvm"), 0o755), os.Symlink(at(".ssh"), at(".nvm/versions")), os.MkdirAll(at(".pyenv"), 0o755), os.Symlink(at(".cargo"), at(".pyenv/versions")))
}

// shown returns the toolchains that a sandbox shows.
func (b *bait) shown() (mounts []sandbox.Mount) {
	found := toolchains.Find(toolchains.Options{Variable: func(name string) string { return map[string]string{"HOME": b.home()}[name] }})
	for _, place := range found.Places {
		mounts = append(mounts, sandbox.Mount{Path: place.Path})
	}
	return mounts
}

// listen opens what can be reached over a network or as a socket.
func (b *bait) listen() error {
	if list, err := net.Interfaces(); err == nil {
		for _, i := range list {
			if i.Flags&net.FlagLoopback == 0 {
				b.facts.Interfaces = append(b.facts.Interfaces, i.Name)
			}
		}
	}
	if len(b.facts.Interfaces) == 0 {
		b.facts.Interfaces = []string{"none"}
	}
	b.facts.Address = address()
	stream := func(network, at string) (net.Listener, error) {
		l, err := net.Listen(network, at)
		if err == nil {
			b.closers = append(b.closers, l)
			b.wg.Go(func() { b.serve(l) })
		}
		return l, err
	}
	l, err := stream("tcp4", "0.0.0.0:0")
	if err != nil {
		return err
	}
	b.facts.Ports["tcp4"] = l.Addr().(*net.TCPAddr).Port
	if l, err := stream("tcp6", "[::1]:0"); err == nil {
		b.facts.Ports["tcp6"] = l.Addr().(*net.TCPAddr).Port
	}
	for _, at := range []string{b.path("project", streamName), b.path("outside/project", streamName), b.path("out", streamName), b.path("outside/out", streamName)} {
		if _, err := stream("unix", at); err != nil {
			return err
		}
		if err := os.Chmod(at, 0o777); err != nil {
			return err
		}
	}
	for _, name := range []string{"docker.sock", "ssh-agent", "dbus", "X11"} {
		if _, err := stream("unix", filepath.Join(b.facts.Beside, name+".sock")); err != nil {
			return err
		}
	}
	_, _ = stream("unix", "@"+b.facts.Abstract) // Linux only
	return b.listenPackets()
}

func (b *bait) path(dir, name string) string { return filepath.Join(b.base, dir, name) }

func (b *bait) listenPackets() error {
	for network, at := range map[string]string{"udp4": "0.0.0.0:0", "udp6": "[::1]:0", "unixgram": b.path("project", datagramName)} {
		c, err := net.ListenPacket(network, at)
		if err != nil {
			if network == "udp6" {
				continue
			}
			return err
		}
		b.closers = append(b.closers, c)
		if u, ok := c.LocalAddr().(*net.UDPAddr); ok {
			b.facts.Ports[network] = u.Port
		} else if err := os.Chmod(at, 0o777); err != nil {
			return err
		}
		b.wg.Go(func() {
			buf := make([]byte, 2048)
			for {
				n, from, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				b.hear(buf[:n])
				if from != nil {
					_, _ = c.WriteTo([]byte(b.secret), from)
				}
			}
		})
	}
	return nil
}

// address is one of the machine's that is not loopback.
func address() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.2"
}

// serve answers whoever says something with the secret.
func (b *bait) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b.wg.Go(func() {
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(timeLimit))
			if l.Addr().Network() == "tcp" {
				_, _ = io.WriteString(c, b.secret+"\n")
			}
			buf := make([]byte, 2048)
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			b.hear(buf[:n])
			_, _ = io.WriteString(c, b.secret+"\n")
		})
	}
}

func (b *bait) hear(text []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told = append(b.told, text...); len(b.told) > maxTold {
		b.told = b.told[len(b.told)-maxTold:]
	}
}

// heard says whether a listener was told a mark.
func (b *bait) heard(mark string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(string(b.told), mark)
}

// renew starts the process outside, if there is none that lives.
func (b *bait) renew() error {
	if b.victim != nil && b.victim.Process.Signal(syscall.Signal(0)) == nil {
		return nil
	}
	b.endVictim()
	secret, err := os.Open(filepath.Join(b.facts.Beside, "secret"))
	if err != nil {
		return err
	}
	defer func() { _ = secret.Close() }()
	reads, writes, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = writes.Close() }()
	cmd := exec.Command(b.executable, Verb, "victim", fmt.Sprintf(`{"victimName":%q}`, b.facts.VictimName))
	cmd.Dir, cmd.Env, cmd.ExtraFiles = b.facts.Beside, []string{"PATH=" + searchPath, "PROBE_API_KEY=" + b.secret}, []*os.File{secret, writes}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		_ = reads.Close()
		return fmt.Errorf("starting a process to be looked into: %w", err)
	}
	b.victim, b.victimIn, b.facts.Victim = cmd, in, cmd.Process.Pid
	b.closers = append(b.closers, reads)
	b.wg.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, err := reads.Read(buf)
			if err != nil {
				return
			}
			b.hear(buf[:n])
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("the process to be looked into says %q: %w", line, err)
	}
	return nil
}

func (b *bait) endVictim() {
	if b.victim != nil {
		_ = b.victimIn.Close()
		_ = b.victim.Process.Kill()
		_ = b.victim.Wait()
		b.victim = nil
	}
}

func (b *bait) close() {
	b.endVictim()
	for _, c := range b.closers {
		_ = c.Close()
	}
	b.wg.Wait()
	for _, path := range []string{b.temporary, b.shared} {
		if path != "" {
			_ = os.Remove(path)
		}
	}
}

// environment is what scripts know of the bait.
func (b *bait) environment() []string {
	name, _ := os.Hostname()
	return []string{
		"HOSTHOME=" + b.home(), "HOSTTMP=" + b.temporary, "HOSTSHM=" + b.shared, "HOSTNAMEMARK=" + name, "SHADOW=" + identity("/etc/shadow"), "LOG=" + identity("/var/log/dpkg.log"),
		fmt.Sprint("PORT=", b.facts.Ports["tcp4"]), fmt.Sprint("UDPPORT=", b.facts.Ports["udp4"]),
	}
}

// identity tells a file of this machine from any other of that name.
func identity(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return "absent"
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return "absent"
	}
	return fmt.Sprintf("%d:%d", sys.Ino, st.Size())
}

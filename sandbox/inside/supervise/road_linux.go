package supervise

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A road carries plain TCP connections. Its resolver answers each name that the host
// knows with an address of its own; who connects to that is led to the road's listener by
// another address, which stands for the name and the port. All of them are in 127.0.0.0/8,
// of which the kernel takes every address for its own.
type road struct {
	c        *client
	listener net.Listener
	port     uint16
	resolver *resolver
	bufs     buffers

	// mu guards what follows.
	mu       sync.Mutex
	names    addresses[string]
	known    map[string]time.Time // when the host last said that it knows a name
	routes   addresses[route]
	loopback []netip.AddrPort // of the host itself, that may be reached
	asked    time.Time        // when they were
}

// route names the host that a connection is led to.
type route struct {
	host string
	port uint16
}

const (
	maxNames  = 4096
	maxRoutes = 8192
	// maxRoad bounds the connections that a road carries at once; further ones wait in the
	// listener's queue.
	maxRoad = 2048
	// knownAge bounds how long the host's answers count: that it knows a name, and which of its
	// own addresses may be reached. It decides about each connection in any case.
	knownAge = time.Second
)

// addresses gives each of the things that were used last an address below a prefix.
type addresses[T comparable] struct {
	first  netip.Addr
	max    int
	next   uint32
	of     map[T]netip.Addr
	things map[netip.Addr]T
	used   map[T]uint64
	clock  uint64
}

// addressBits counts the bits of an address that number the things.
const addressBits = 21

func newAddresses[T comparable](first string, max int) addresses[T] {
	return addresses[T]{first: netip.MustParseAddr(first), max: max, of: map[T]netip.Addr{}, things: map[netip.Addr]T{}, used: map[T]uint64{}}
}

// at is the address of a thing. Those that were forgotten get another one when they come
// back: an address means something else only when all others have been given.
func (a *addresses[T]) at(thing T) netip.Addr {
	a.clock++
	a.used[thing] = a.clock
	if addr, ok := a.of[thing]; ok {
		return addr
	}
	if len(a.of) >= a.max {
		a.forget()
	}
	addr := a.first
	for taken := true; taken; _, taken = a.things[addr] {
		a.next = (a.next + 1) % (1 << addressBits)
		b := a.first.As4()
		b[1], b[2], b[3] = b[1]|byte(a.next>>16), byte(a.next>>8), byte(a.next)
		addr = netip.AddrFrom4(b)
	}
	a.of[thing], a.things[addr] = addr, thing
	return addr
}

// forget drops the quarter that was not used for the longest time.
func (a *addresses[T]) forget() {
	all := slices.SortedFunc(maps.Keys(a.of), func(x, y T) int { return int(int64(a.used[x]) - int64(a.used[y])) })
	for _, thing := range all[:len(all)/4] {
		delete(a.things, a.of[thing])
		delete(a.of, thing)
		delete(a.used, thing)
	}
}

// namePrefix has the addresses of names. Routes have the other half of it.
var namePrefix = netip.MustParsePrefix("127.64.0.0/10")

// openRoad opens the road of a sandbox with a network of its own. Without a Guard that
// carries out connect nothing could be led: then no name is known.
func (c *client) openRoad() error {
	l, ok := c.platform.(*linux)
	if !ok {
		return nil
	}
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		return fmt.Errorf("opening the road out: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	r := &road{
		c: c, listener: listener, port: uint16(port), bufs: buffers{size: roadBuffer},
		names: newAddresses[string]("127.64.0.0", maxNames), known: map[string]time.Time{}, routes: newAddresses[route]("127.96.0.0", maxRoutes),
	}
	led := l.closure != nil && l.closure.filter().Connect
	if r.resolver, err = newResolver(func(name string) (netip.Addr, bool) { return r.find(name, led) }); err != nil {
		_ = listener.Close()
		return err
	}
	c.mu.Lock()
	c.road = r
	c.mu.Unlock()
	c.wg.Go(r.accept)
	r.resolver.serve(&c.wg)
	l.road.Store(r)
	return nil
}

// Close implements io.Closer. Connections go on.
func (r *road) Close() error { return errors.Join(r.listener.Close(), r.resolver.Close()) }

func (r *road) ports() []int { return []int{int(r.port)} }

// ask puts a question to the host.
func (r *road) ask(question header) (answer header, err error) {
	stream, err := r.c.session.OpenStream()
	if err != nil {
		return answer, err
	}
	defer func() { _ = stream.Close() }()
	_ = stream.SetDeadline(time.Now().Add(questionTime))
	if err := writeHeader(stream, question); err != nil {
		return answer, err
	}
	if answer, err = readHeader(stream); err == nil && answer.Error != "" {
		err = errUnknown
	}
	return answer, err
}

// find returns the address of a name, if the host knows it.
func (r *road) find(name string, led bool) (netip.Addr, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.known[name]) > knownAge {
		r.mu.Unlock()
		_, err := r.ask(header{Stream: knownStream, Host: name})
		r.mu.Lock()
		if err != nil || !led {
			return netip.Addr{}, false
		}
		if len(r.known) >= maxNames {
			clear(r.known)
		}
		r.known[name] = time.Now()
	}
	return r.names.at(name), true
}

// lead says where a stream that wants to connect to an address is to be connected to
// instead; to the same one where the road does not lead.
func (r *road) lead(to netip.AddrPort) netip.AddrPort {
	addr := to.Addr().Unmap()
	switch {
	case namePrefix.Contains(addr):
		r.mu.Lock()
		defer r.mu.Unlock()
		if name, ok := r.names.things[addr]; ok {
			return r.at(route{name, to.Port()})
		}
	case addr.IsLoopback() || addr.IsUnspecified():
		if at := r.allowed(addr, to.Port()); at.IsValid() && !r.taken(at) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.at(route{at.Addr().String(), at.Port()})
		}
	case addr.IsGlobalUnicast() || addr.IsLinkLocalUnicast():
		if _, err := r.ask(header{Stream: knownStream, Host: addr.WithZone("").String(), Port: int(to.Port())}); err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.at(route{addr.WithZone("").String(), to.Port()})
		}
	}
	return to
}

// at returns the address at which the listener stands for a route. mu is held.
func (r *road) at(to route) netip.AddrPort {
	return netip.AddrPortFrom(r.routes.at(to), r.port)
}

// allowed is the address of the host itself that a loopback address stands for, if it may
// be reached.
func (r *road) allowed(addr netip.Addr, port uint16) netip.AddrPort {
	if addr.IsUnspecified() { // connects to loopback
		addr = map[bool]netip.Addr{true: netip.MustParseAddr("127.0.0.1"), false: netip.IPv6Loopback()}[addr.Is4()]
	}
	r.mu.Lock()
	known, old := r.loopback, time.Since(r.asked) > knownAge
	r.mu.Unlock()
	if old {
		answer, err := r.ask(header{Stream: loopbackStream})
		if err != nil {
			return netip.AddrPort{}
		}
		known = answer.Addresses
		r.mu.Lock()
		r.loopback, r.asked = known, time.Now()
		r.mu.Unlock()
	}
	if at := netip.AddrPortFrom(addr, port); slices.Contains(known, at) {
		return at
	}
	return netip.AddrPort{}
}

// taken reports whether something inside listens at an address, and has the person know.
func (r *road) taken(at netip.AddrPort) bool {
	here := !free(at) && slices.ContainsFunc(listening(), func(l netip.AddrPort) bool {
		return l.Port() == at.Port() && (l.Addr() == at.Addr() || l.Addr().IsUnspecified() && (l.Addr().Is6() || at.Addr().Is4()))
	})
	if here {
		r.c.wg.Go(func() { _, _ = r.ask(header{Stream: takenStream, Addresses: []netip.AddrPort{at}}) })
	}
	return here
}

// free reports whether an address could be listened at. It is quick; to list who listens, the
// kernel goes through the sockets of the whole machine.
func free(at netip.AddrPort) bool {
	family, bound := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()})
	if at.Addr().Is4() {
		family, bound = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	socket, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(socket) }()
	if unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) != nil {
		return false
	}
	return unix.Bind(socket, bound) == nil
}

// accept carries what is led here.
func (r *road) accept() {
	slots := make(chan struct{}, maxRoad)
	for {
		slots <- struct{}{}
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.c.wg.Go(func() {
			defer func() { <-slots }()
			at, _ := netip.ParseAddrPort(conn.LocalAddr().String())
			r.mu.Lock()
			to, ok := r.routes.things[at.Addr().Unmap()]
			r.mu.Unlock()
			if !ok {
				reset(conn)
				_ = conn.Close()
				return
			}
			r.c.carry(header{Stream: roadStream, Host: to.host, Port: int(to.port)}, conn, &r.bufs)
		})
	}
}

// listening are the addresses of the network namespace at which TCP is listened for.
func listening() (all []netip.AddrPort) {
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(file)
		if err != nil {
			continue // without IPv6
		}
		all = append(all, listeners(bufio.NewScanner(f))...)
		_ = f.Close()
	}
	return all
}

// listeners reads a table of sockets, in which those that listen come first.
func listeners(s *bufio.Scanner) (all []netip.AddrPort) {
	const listens = "0A"
	s.Scan() // the heading
	for s.Scan() {
		fields := strings.Fields(s.Text())
		if len(fields) < 4 || fields[3] != listens {
			break
		}
		address, port, _ := strings.Cut(fields[1], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		if addr, ok := tableAddress(address); ok && err == nil {
			all = append(all, netip.AddrPortFrom(addr, uint16(n)))
		}
	}
	return all
}

// tableAddress reads an address as those tables have it: words in the machine's order of
// bytes, in hexadecimal.
func tableAddress(text string) (netip.Addr, bool) {
	raw := make([]byte, 0, len(text)/2)
	for ; len(text) >= 8; text = text[8:] {
		word, err := strconv.ParseUint(text[:8], 16, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		raw = binary.NativeEndian.AppendUint32(raw, uint32(word))
	}
	return netip.AddrFromSlice(raw)
}

// nameResolver has a root's /etc/resolv.conf name the resolver. Where there is none,
// programs ask at 127.0.0.1.
func nameResolver(r Root) error {
	if !r.Resolver {
		return nil
	}
	own := newRoot + "/run/gander/resolv.conf"
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(own, []byte("nameserver "+Resolver+"\n"), 0o644); err != nil {
		return err
	}
	path := resolverFile
	for range 8 { // links of the system's, as systemd and others make them
		target, err := os.Readlink(newRoot + path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = filepath.Clean(target)
	}
	_, err := os.Lstat(newRoot + path)
	if errors.Is(err, fs.ErrNotExist) && path == resolverFile {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(newRoot+path), 0o755)
		if err == nil {
			err = os.WriteFile(newRoot+path, nil, 0o644)
		}
	}
	if err != nil {
		return err
	}
	if err := mount(own, newRoot+path, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return restrict(newRoot+path, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV)
}

// resolverFile names the resolver to programs.
const resolverFile = "/etc/resolv.conf"

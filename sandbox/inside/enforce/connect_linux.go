package enforce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxAddress is more than any socket address takes (sockaddr_storage).
const maxAddress = 128

// connect carries out connect on a copy of the caller's socket. A socket in the
// file system is reached only when a process inside listens on it: others, such as
// those of a Docker daemon or an agent with keys, do what is asked of them outside.
func (t *task) connect() answer {
	size := int(uint32(t.arg(2)))
	if size < 2 || size > maxAddress {
		return done(unix.EINVAL)
	}
	address := make([]byte, size)
	if t.read(address, t.arg(1)) != size {
		return done(unix.EFAULT)
	}
	socket, e := t.socket(int(t.fd(0)))
	if e != 0 {
		return done(e)
	}
	if binary.NativeEndian.Uint16(address) == unix.AF_UNIX && size > 2 {
		if address[2] == 0 {
			return done(t.connectAbstract(socket, address))
		}
		path, _, _ := bytes.Cut(address[2:], []byte{0})
		return done(t.connectPath(socket, string(path)))
	}
	return done(connect(socket, t.lead(socket, address)))
}

// The parts of socket addresses, from netinet/in.h.
const (
	portAt, address4At, address4End = 2, 4, 8
	address6At, address6End         = 8, 24
)

// lead is the address that a socket is connected to when it is to be connected to one.
func (t *task) lead(socket int, address []byte) []byte {
	at, end := address4At, address4End
	family := binary.NativeEndian.Uint16(address)
	if family == unix.AF_INET6 {
		at, end = address6At, address6End
	}
	if t.g.o.Lead == nil || family != unix.AF_INET && family != unix.AF_INET6 || len(address) < end {
		return address
	}
	if kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return address
	}
	addr, _ := netip.AddrFromSlice(address[at:end])
	to := netip.AddrPortFrom(addr, binary.BigEndian.Uint16(address[portAt:]))
	instead := t.g.o.Lead(to)
	if instead == to {
		return address
	}
	led := bytes.Clone(address)
	binary.BigEndian.PutUint16(led[portAt:], instead.Port())
	if family == unix.AF_INET6 {
		_ = unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) // it is led to an address of IPv4
		mapped := instead.Addr().As16()
		copy(led[at:end], mapped[:])
	} else {
		plain := instead.Addr().As4()
		copy(led[at:end], plain[:])
	}
	return led
}

// socket is a copy of one of the caller's.
func (t *task) socket(fd int) (int, unix.Errno) {
	socket, err := descriptor(t.tid, fd)
	if errors.Is(err, unix.EINVAL) {
		socket, err = descriptor(t.process(), fd)
	}
	if err != nil {
		return -1, number(err)
	}
	t.keep(socket)
	if !t.waits() {
		return -1, unix.EINTR
	}
	return socket, 0
}

// descriptor is a copy of one of a thread. Before Linux 6.9 it is EINVAL for all threads but
// the first of their process.
func descriptor(thread, fd int) (int, error) {
	who, err := unix.PidfdOpen(thread, unix.PIDFD_THREAD)
	if errors.Is(err, unix.EINVAL) {
		who, err = unix.PidfdOpen(thread, 0)
	}
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(who) }()
	return unix.PidfdGetfd(who, fd, 0)
}

func connect(socket int, address []byte) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(socket), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
	return e
}

// connectAbstract connects to a name that is in no file system, which every socket of the
// network namespace may have.
func (t *task) connectAbstract(socket int, address []byte) unix.Errno {
	if !t.g.o.OwnNetwork {
		name := string(address[2:])
		if e := t.askListener(socket, &unix.SockaddrUnix{Name: name}, "@"+name[1:]); e != 0 {
			return e
		}
	}
	return connect(socket, address)
}

func (t *task) connectPath(socket int, name string) unix.Errno {
	base, e := t.base(here, name)
	if e != 0 {
		return e
	}
	path, e := t.find(base, name, true)
	if e != 0 {
		return e
	}
	o, e := t.permit(path, true)
	if e != 0 {
		return e
	}
	at := &unix.SockaddrUnix{Name: "/proc/self/fd/" + decimal(path)}
	if e := t.permitListener(socket, at, &o); e != 0 {
		return e
	}
	return number(unix.Connect(socket, at))
}

// permitListener finds out who listens before anything of the caller's reaches it.
func (t *task) permitListener(socket int, at unix.Sockaddr, o *object) unix.Errno {
	if t.g.o.OwnNetwork {
		here, err := t.g.boundHere(o)
		if err == nil && !here {
			return t.unheard(o.path)
		}
		if err == nil {
			return 0
		}
	}
	return t.askListener(socket, at, o.path)
}

// askListener connects a socket of its own, which the listener sees as a client
// that says nothing.
func (t *task) askListener(socket int, at unix.Sockaddr, path string) unix.Errno {
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return number(err)
	}
	probe, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return number(err)
	}
	defer func() { _ = unix.Close(probe) }()
	if err := unix.Connect(probe, at); err != nil {
		return number(err)
	}
	peer, err := unix.GetsockoptUcred(probe, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || !t.g.o.Inside(int(peer.Pid)) {
		return t.unheard(path)
	}
	return 0
}

// unheard tells of a socket at which nobody inside listens, and is the caller's error.
func (t *task) unheard(path string) unix.Errno {
	t.g.o.Denied(Denial{Operation: t.g.names[t.n.nr], Path: path, PID: t.tid, Unheard: true})
	return unix.EACCES
}

// touchMemory is process_vm_readv and process_vm_writev.
func (t *task) touchMemory() answer { return t.touch(int(int32(t.arg(0)))) }

// limit is prlimit64 with new limits. That of core dumps stays as it is; who asks for the one
// before, too, is not told a lie.
func (t *task) limit() answer {
	switch {
	case uint32(t.arg(1)) != unix.RLIMIT_CORE:
		return t.touch(int(int32(t.arg(0))))
	case t.arg(3) != 0:
		return done(unix.EPERM)
	}
	return done(0)
}

func (t *task) touch(pid int) answer {
	if !t.g.o.Inside(pid) && !t.isOwn(pid) {
		return done(unix.EPERM)
	}
	return proceed()
}

// isOwn reports whether a number is that of the caller's process, or of a thread of it.
func (t *task) isOwn(pid int) bool { return t.g.processOf(pid) == t.process() }

// processOf is the process that a thread is of; 0 when there is none.
func (g *Guard) processOf(thread int) int {
	status, _ := g.procFile(decimal(thread) + "/status")
	id, _ := strconv.Atoi(statusField(status, "Tgid:"))
	return id
}

package enforce

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// The parts of sock_diag(7) for UNIX domain sockets that x/sys does not have.
const (
	sockDiagByFamily = 20
	showVFS          = 1 << 1
	attributeVFS     = 1
	anyState         = 0xffffffff
	diagRequestSize  = 24 // struct unix_diag_req
	diagMessageSize  = 16 // struct unix_diag_msg
)

// boundHere reports whether a socket of this network namespace is bound to the
// file: a socket in the file system is reached from every namespace, but listed in
// its own only. An error means that the kernel does not tell.
func boundHere(o *object) (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return false, fmt.Errorf("asking for the list of sockets: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, fmt.Errorf("asking for the list of sockets: %w", err)
	}
	// The kernel has devices as 12 bits of major and 20 of minor, and cuts inodes.
	device, number := o.stat.Dev_major<<20|o.stat.Dev_minor, uint32(o.stat.Ino)
	buf := make([]byte, 64<<10)
	for found := false; ; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return false, fmt.Errorf("reading the list of sockets: %w", err)
		}
		more, err := eachMessage(buf[:n], func(ino, dev uint32) { found = found || ino == number && dev == device })
		if err != nil || !more {
			return found, err
		}
	}
}

func diagRequest() []byte {
	r := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	binary.NativeEndian.PutUint32(r[0:], uint32(len(r)))
	binary.NativeEndian.PutUint16(r[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(r[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := r[unix.SizeofNlMsghdr:]
	body[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(body[4:], anyState)
	binary.NativeEndian.PutUint32(body[12:], showVFS)
	return r
}

// eachMessage calls see with the file of each bound socket; more is false at the end.
func eachMessage(raw []byte, see func(ino, dev uint32)) (more bool, err error) {
	for len(raw) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(raw))
		if size < unix.SizeofNlMsghdr || size > len(raw) {
			return false, fmt.Errorf("reading the list of sockets: a message of %d bytes in %d", size, len(raw))
		}
		switch binary.NativeEndian.Uint16(raw[4:]) {
		case unix.NLMSG_DONE:
			return false, nil
		case unix.NLMSG_ERROR:
			return false, fmt.Errorf("the kernel does not list sockets")
		}
		if size >= unix.SizeofNlMsghdr+diagMessageSize {
			eachAttribute(raw[unix.SizeofNlMsghdr+diagMessageSize:size], see)
		}
		raw = raw[min(aligned(size), len(raw)):]
	}
	return true, nil
}

func eachAttribute(raw []byte, see func(ino, dev uint32)) {
	for len(raw) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(raw))
		if size < unix.SizeofRtAttr || size > len(raw) {
			return
		}
		if value := raw[unix.SizeofRtAttr:size]; binary.NativeEndian.Uint16(raw[2:]) == attributeVFS && len(value) >= 8 {
			see(binary.NativeEndian.Uint32(value), binary.NativeEndian.Uint32(value[4:]))
		}
		raw = raw[min(aligned(size), len(raw)):]
	}
}

func aligned(n int) int { return (n + 3) &^ 3 }

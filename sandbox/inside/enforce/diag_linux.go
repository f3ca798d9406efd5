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
// its own only. An error means that the kernel does not tell for sure.
func (g *Guard) boundHere(o *object) (bool, error) {
	mount, ok := g.mounts.find(o.stat.Mnt_id)
	if !ok {
		return false, fmt.Errorf("the mount of %s is not in the table", o.path)
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(mount.Device, "%d:%d", &major, &minor); err != nil {
		return false, fmt.Errorf("the device of %s: %w", mount.At, err)
	}
	bound, err := listsSocket(uint32(o.stat.Ino), major, minor)
	if bound && (major != o.stat.Dev_major || minor != o.stat.Dev_minor) {
		// A file system of several parts, as btrfs with its subvolumes is: each may have a
		// file of that number.
		return false, fmt.Errorf("%s may be another file than the one that is bound", o.path)
	}
	return bound, err
}

// listsSocket reports whether a socket is bound to a file of that number, which the kernel
// cuts, on the device that the file system as a whole has. A file may say another one of
// itself (stat(2)), on btrfs and on overlays of several file systems.
func listsSocket(number, major, minor uint32) (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return false, fmt.Errorf("asking for the list of sockets: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, fmt.Errorf("asking for the list of sockets: %w", err)
	}
	device := major<<20 | minor // 12 bits and 20
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

package keeper

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// samePeer reports whether the other end of a unix socket is a process of this user.
func samePeer(c net.Conn) (bool, error) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false, err
	}
	var peer *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return false, err
	}
	return asked == nil && int(peer.Uid) == os.Geteuid(), asked
}

package docker

import (
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/drivers/registry"
)

// peer is the process that connected to one of our sockets, which is a
// container's first; the zero value when it is not one of this PID namespace.
func peer(conn net.Conn) (who registry.ProcessRef) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return who
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return who
	}
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil && cred.Pid > 0 {
			who = registry.Process(int(cred.Pid))
		}
	})
	return who
}

// ofUser says whether the daemon at host runs as an ordinary user, who owns its
// socket then. Podman does not say so itself.
func ofUser(host string) bool {
	path, ok := strings.CutPrefix(host, "unix://")
	var st unix.Stat_t
	return ok && unix.Stat(path, &st) == nil && st.Uid != 0
}

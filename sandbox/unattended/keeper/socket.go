package keeper

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// maxSocketPath is how long the address of a unix socket may be on every system.
const maxSocketPath = 100

// listen opens the run's control socket. Where the directory's path is too long for
// one, it is in a private temporary directory; keeper.addr says where.
func (d Dir) listen() (net.Listener, error) {
	path := d.file(sockFile)
	if len(path) > maxSocketPath {
		dir, err := os.MkdirTemp("", "gander-")
		if err != nil {
			return nil, fmt.Errorf("making a place for the keeper's socket: %w", err)
		}
		path = filepath.Join(dir, sockFile)
	}
	d.removeSocket() // of a killed keeper
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err == nil {
		err = writeFile(d.file(addrFile), []byte(path))
	}
	if err != nil {
		if l != nil {
			_ = l.Close()
		}
		return nil, fmt.Errorf("opening the keeper's socket: %w", err)
	}
	return &ownListener{l}, nil
}

// socket is where the run's control socket is, or was.
func (d Dir) socket() (string, error) {
	raw, err := os.ReadFile(d.file(addrFile))
	return strings.TrimSpace(string(raw)), err
}

// removeSocket removes the control socket, and the directory that was made for it.
func (d Dir) removeSocket() {
	path, err := d.socket()
	if err != nil {
		return
	}
	_ = os.Remove(path)
	if filepath.Dir(path) != d.Path {
		_ = os.Remove(filepath.Dir(path)) // empty, or not ours
	}
	_ = os.Remove(d.file(addrFile))
}

// ownListener accepts only connections of this process's user.
type ownListener struct{ net.Listener }

func (l *ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if ours, err := samePeer(c); err == nil && ours {
			return c, nil
		}
		_ = c.Close()
	}
}

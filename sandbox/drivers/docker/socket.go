package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// Verb is the hidden command under which the program is a container's first
// process and gets its stream from a socket: see Main.
const Verb = "supervise-container"

// socketInside is where the socket is in a container.
const socketInside = "/run/gander/stream/socket"

// acceptTimeout is how long a started container has to connect.
const acceptTimeout = 10 * time.Second

// errNoSocket says that a container did not connect to its socket.
var errNoSocket = errors.New("the container did not connect to its socket")

// mayUseSocket says whether it is worth trying: the daemon may be on this very
// system, and there is a private place for the socket.
func (o Options) mayUseSocket() bool {
	u, err := url.Parse(o.host())
	return err == nil && u.Scheme == "unix" && runtime.GOOS == "linux" && o.StateDir != ""
}

// socket is a listener for one connection, from a container that shows its
// directory. Only this user and root get to the directory on the host.
type socket struct {
	listener *net.UnixListener
	dir      string
}

// listen makes a socket in the directory of a sandbox.
func listen(stateDir, id string) (*socket, error) {
	dir := filepath.Join(stateDir, "sandboxes", id, "stream")
	s, err := listenIn(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("making the sandbox's socket: %w", err)
	}
	return s, nil
}

func listenIn(dir string) (*socket, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	name := filepath.Base(socketInside)
	_ = os.Remove(filepath.Join(dir, name)) // of a killed gander
	// The real path may be longer than the address of a socket can be.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name)})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // that name is about to mean something else
	// The user inside is another one; the directory above keeps strangers away.
	if err := os.Chmod(filepath.Join(dir, name), 0o666); err != nil {
		_ = l.Close()
		return nil, err
	}
	return &socket{l, dir}, nil
}

// accept returns the connection of a container; gone is its end.
func (s *socket) accept(ctx context.Context, gone <-chan struct{}) (net.Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, acceptTimeout)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { // ends with this function
		select {
		case <-gone:
		case <-waiting.Done():
		}
		_ = s.listener.SetDeadline(time.Unix(1, 0))
	})
	conn, err := s.listener.Accept()
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("waiting for the container: %w", ctx.Err())
	}
	return nil, fmt.Errorf("%w: %w", errNoSocket, err)
}

// close removes the socket; an accepted connection stays.
func (s *socket) close() {
	_ = s.listener.Close()
	_ = os.RemoveAll(s.dir)
}

package docker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/inside/supervise"
)

// Main is the first process of a container: the supervisor, with the socket that
// its second argument names as its stream. args are the program's arguments, the
// first of which is Verb. Like supervise.Main it must be called first thing in
// main, on the main goroutine.
func Main(args []string) int {
	if len(args) != 2 || args[0] != Verb {
		fmt.Fprintf(os.Stderr, "docker: not started as %s SOCKET\n", Verb)
		return 2
	}
	if err := becomeStdio(args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "docker:", err)
		return 1
	}
	return supervise.Main([]string{supervise.Verb})
}

// becomeStdio makes the connection to a socket stdin and stdout.
func becomeStdio(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("making a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return fmt.Errorf("connecting to %s: %w", path, err)
	}
	for std := range 2 {
		if err := unix.Dup3(fd, std, 0); err != nil {
			return fmt.Errorf("replacing descriptor %d: %w", std, err)
		}
	}
	return nil
}

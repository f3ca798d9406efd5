//go:build unix

package cli

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// endSignals are those that ask gander to end.
func endSignals() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
}

// PassedSignals are others that a command in gander's place would get.
func PassedSignals() []os.Signal {
	return []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}
}

// SignalName is the word a sandbox has for a signal.
func SignalName(sig os.Signal) string {
	return strings.TrimPrefix(unix.SignalName(sig.(syscall.Signal)), "SIG") // there are no others here
}

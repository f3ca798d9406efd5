package cli

import (
	"os"
	"syscall"
)

// endSignals are those that ask gander to end.
func endSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} }

// PassedSignals are none: Windows has no others.
func PassedSignals() []os.Signal { return nil }

// SignalName is the word a sandbox has for a signal.
func SignalName(sig os.Signal) string {
	switch sig {
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGHUP:
		return "HUP"
	}
	return "INT"
}

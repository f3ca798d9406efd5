package main

import (
	"os"
	"syscall"
)

// endSignals are those that ask gander to end.
func endSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} }

// passedSignals are none: Windows has no others.
func passedSignals() []os.Signal { return nil }

// signalName is the word a sandbox has for a signal.
func signalName(sig os.Signal) string {
	switch sig {
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGHUP:
		return "HUP"
	}
	return "INT"
}

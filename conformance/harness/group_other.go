//go:build !unix

package harness

import (
	"errors"
	"os/exec"
)

// OwnGroup does nothing on this system.
func OwnGroup(*exec.Cmd) {}

// KillGroup does nothing on this system.
func KillGroup(*exec.Cmd) {}

// Terminate cannot be done on this system.
func Terminate(*exec.Cmd) error { return errors.ErrUnsupported }

// CanTerminate says whether this system has SIGTERM.
const CanTerminate = false

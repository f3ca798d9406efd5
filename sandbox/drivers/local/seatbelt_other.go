//go:build !linux && !darwin

package local

import (
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// Lacks says in words for people what sandboxes of this package are on this system, and
// what they do not hold.
func Lacks() string { return noSandbox }

// confine has nothing to confine with.
func (d *Driver) confine(*plan, sandbox.Spec) error { return nil }

// keep has nothing to keep rules with.
func (d *Driver) keep(*plan, sandbox.Spec) error { return supervise.ErrRules }

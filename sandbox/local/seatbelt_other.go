//go:build !linux && !darwin

package local

import "gander.dev/gander/sandbox"

// confine has nothing to confine with.
func (d *Driver) confine(*plan, sandbox.Spec) error { return nil }

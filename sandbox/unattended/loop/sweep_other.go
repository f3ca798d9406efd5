//go:build !linux

package loop

import "context"

// Closed does nothing: only Linux knows what it is about. There is no sandbox then whose
// agent could use it.
func Closed() error { return nil }

// Sweep does nothing: what a supervisor could not end cannot be found here.
func Sweep(context.Context) error { return nil }

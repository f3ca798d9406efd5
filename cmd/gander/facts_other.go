//go:build !linux

package main

import "gander.dev/gander/sandbox/drivers/local"

// examineKernel says what this system cannot do.
func examineKernel() check {
	return check{
		ID: checkKernel, State: checkWarn,
		What: "this system has no namespaces; what --sandbox local is here: " + local.Lacks(),
		Next: "use gander on Linux, or in a Linux container or virtual machine, to isolate agents",
	}
}

//go:build !linux

package main

import "runtime"

// examineKernel says what this system cannot do.
func examineKernel() check {
	return check{
		ID: checkKernel, State: checkWarn,
		What: runtime.GOOS + " has no namespaces: commands are ended with everything they start, but see your files and the network",
		Next: "use gander on Linux, or in a Linux container or virtual machine, to isolate agents",
	}
}

//go:build !linux

package doctor

import (
	"gander.dev/gander/sandbox/drivers/local"
)

// examineKernel says what this system cannot do.
func examineKernel() Check {
	return Check{
		ID: CheckKernel, State: checkWarn,
		What: "this system has no namespaces; what --sandbox local is here: " + local.Lacks(),
		Next: "use gander on Linux, or in a Linux container or virtual machine, to isolate agents",
	}
}

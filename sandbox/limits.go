package sandbox

import (
	"context"
	"fmt"
	"time"

	"gander.dev/gander/sandbox/rules/policy"
)

// Limits bound what everything in one sandbox uses together. Zero is the driver's
// default, a negative number no bound.
type Limits struct {
	// Memory is in bytes; by default three quarters of the machine's.
	Memory int64
	// CPU is in processors; by default there is no bound.
	CPU float64
	// Processes counts threads, too; by default it is DefaultProcesses.
	Processes int64
	// Disk is what may be written to temporary files, in bytes; by default the
	// kernel's own bound holds, half of the machine's memory each. The project, and a
	// home on the host's disk, cannot be bounded; a single file there can.
	Disk int64
	// Time is how long one command that is started from outside may run; by default
	// there is no bound. Infrastructure has none.
	Time time.Duration
}

// The bounds where none is given: of processes and threads, and the least of memory, as
// agents do not work with less. The kernel knows no more processes than MaxProcesses.
const (
	DefaultProcesses = policy.DefaultProcesses
	LeastMemory      = int64(policy.LeastMemory)
	MaxProcesses     = 1 << 22
)

// A Limited sandbox knows which of its bounds were met.
type Limited interface {
	// Exceeded says, in sentences, which bounds stopped something so far.
	Exceeded(ctx context.Context) []string
}

// TooMuchMemory says why n processes were killed.
func TooMuchMemory(n int64, bound string) string {
	what := "processes were"
	if n == 1 {
		what = "process was"
	}
	return fmt.Sprintf("%d %s killed because the sandbox needed more memory than its bound of %s; policy.limits.memory sets it", n, what, bound)
}

// A Counted sandbox is one for whose processes the kernel keeps a common account, which
// nothing inside can falsify.
type Counted interface {
	// Consumption is what all of them have used. The error says that there is no account.
	Consumption(ctx context.Context) (Consumption, error)
}

// Consumption is what a sandbox has used.
type Consumption struct {
	CPU    time.Duration // of all processors, since it was made
	Memory int64         // bytes, now, without files that are only cached
}

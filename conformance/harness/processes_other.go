//go:build !linux

package harness

// CanSeeProcesses says whether leftovers can be found on this system.
const CanSeeProcesses = false

// A Process is one that carries a mark.
type Process struct {
	PID  int
	Args string
}

// Marked finds nothing on this system.
func Marked(string) []Process { return nil }

// KillMarked ends nothing on this system.
func KillMarked(string) {}

// Stillborn knows of none on this system.
func Stillborn(int) bool { return false }

// Usage is what a process holds.
type Usage struct {
	Resident, Peak       int64
	Descriptors, Threads int
}

// UsageOf reads nothing on this system.
func UsageOf(int) Usage { return Usage{} }

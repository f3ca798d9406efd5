package registry

import "strings"

// machineWords are the parts of a Machine on systems that know them all: what stays
// when the machine is started anew, and what does not.
const machineWords = 4

// sameProcesses says whether a process id means the same on both.
func sameProcesses(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) != machineWords || len(y) != machineWords {
		return a == b
	}
	return x[2] == y[2] && x[3] == y[3]
}

// rebooted says whether one machine, as Machine names it, is the other before it was
// started anew. Two with the same name and the same machine-id are one.
func rebooted(before, now string) bool {
	b, n := strings.Fields(before), strings.Fields(now)
	if len(b) != machineWords || len(n) != machineWords {
		return false
	}
	return b[0] == n[0] && b[1] == n[1] && b[2] != n[2]
}

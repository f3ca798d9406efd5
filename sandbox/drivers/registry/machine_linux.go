package registry

import (
	"os"
	"strings"
)

// Machine names what process ids belong to: the host and this boot of it, and the
// PID namespace, because ganders in different containers may share a home or a
// daemon.
func Machine() string {
	name, err1 := os.Hostname()
	id, err2 := os.ReadFile("/etc/machine-id")
	boot, err3 := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ns, err4 := os.Readlink("/proc/self/ns/pid")
	words := []string{strings.TrimSpace(string(boot)), ns}
	if err1 == nil && err2 == nil && err3 == nil && err4 == nil && len(id) > 1 {
		words = append([]string{name, strings.TrimSpace(string(id))}, words...)
	}
	return strings.Join(words, " ")
}

//go:build !linux

package registry

import "os"

// Machine names what process ids belong to. Process starts are moments in time
// here, so that a restart of the machine needs no other sign.
func Machine() string {
	name, _ := os.Hostname()
	return name
}

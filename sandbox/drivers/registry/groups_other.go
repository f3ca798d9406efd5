//go:build !linux

package registry

// removeGroups: there are none on this system.
func removeGroups(Record) {}

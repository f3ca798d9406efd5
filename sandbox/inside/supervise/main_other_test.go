//go:build !linux

package supervise

// beHelper: there are no helpers.
func beHelper() {}

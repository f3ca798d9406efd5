//go:build !linux

package supervise

// limitsSay: nothing is bounded by the supervisor of other systems but time.
func limitsSay(Setup) []string { return nil }

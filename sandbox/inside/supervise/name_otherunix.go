//go:build unix && !linux && !darwin

package supervise

func processName(int) string { return "" }

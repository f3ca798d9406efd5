//go:build !linux

package devices

func refusal(string) string { return "cannot be given to sandboxes on this system" }

func isDirectory(string) bool { return false }

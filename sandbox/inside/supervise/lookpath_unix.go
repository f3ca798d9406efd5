//go:build unix

package supervise

import "golang.org/x/sys/unix"

func mayExecute(file string) bool { return unix.Access(file, unix.X_OK) == nil }

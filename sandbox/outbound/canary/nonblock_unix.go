//go:build unix

package canary

import "syscall"

// nonblock keeps opening a pipe from waiting for the other end.
const nonblock = syscall.O_NONBLOCK

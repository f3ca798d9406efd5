//go:build unix

package ignore

import "syscall"

// nonblock keeps an open of a pipe without a writer from waiting for one.
const nonblock = syscall.O_NONBLOCK

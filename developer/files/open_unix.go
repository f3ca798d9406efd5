//go:build unix

package files

import "syscall"

// noWait opens no link that came to be in between, does not wait for the other
// end of a pipe, and takes no terminal.
const noWait = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_NOCTTY

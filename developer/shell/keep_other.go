//go:build !linux

package shell

import (
	"errors"
	"runtime"
)

// ErrInside is wrapped where a sandbox of gander's keeps the rules already.
var ErrInside = errors.New("a sandbox of gander's keeps .gooseignore here")

// CanKeepRules tells why the kernel cannot keep rules for commands of a Runner.
func CanKeepRules() error {
	return errors.New("on " + runtime.GOOS + " gander does not have the kernel keep .gooseignore; it does on Linux")
}

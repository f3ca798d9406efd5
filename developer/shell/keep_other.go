//go:build !linux && !darwin

package shell

import (
	"errors"
	"runtime"

	"gander.dev/gander/sandbox"
)

// Means tells how rules are kept for commands of a Runner: not at all.
const Means = sandbox.Open

// version is empty where nothing keeps rules.
func version(_, _ string) string { return "" }

// ErrInside is wrapped where a sandbox of gander's keeps the rules already.
var ErrInside = errors.New("a sandbox of gander's keeps .gooseignore here")

// CanKeepRules tells why the kernel cannot keep rules for commands of a Runner.
func CanKeepRules() error {
	return errors.New("on " + runtime.GOOS + " gander has nothing that keeps .gooseignore; it has on Linux and macOS")
}

package shell

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/enforce"
	"gander.dev/gander/sandbox/inside/supervise"
)

// Means tells how rules are kept for commands of a Runner, where they are.
const Means = sandbox.ByKernel

// version is empty: the kernel has the rules as they are now.
func version(_, _ string) string { return "" }

// ErrInside is wrapped where a sandbox of gander's keeps the rules already.
var ErrInside = errors.New("a sandbox of gander's keeps .gooseignore here")

// CanKeepRules tells why the kernel cannot keep rules for commands of a Runner; nil when it
// can.
func CanKeepRules() error {
	err := enforce.Try()
	if errors.Is(err, unix.EBUSY) && supervised(os.Getppid()) {
		return fmt.Errorf("%w (%w)", ErrInside, err)
	}
	return err
}

// supervised reports whether a process, or one above it, is a supervisor of gander's.
func supervised(pid int) bool {
	for range 100 { // a shell below a shell
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil || pid == 0 {
			return false
		}
		if args := strings.Split(string(line), "\x00"); len(args) > 1 && args[1] == supervise.Verb {
			return true
		}
		if pid = parent(pid); pid == 0 {
			return false
		}
	}
	return false
}

func parent(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "PPid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	return 0
}

package shell

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/ignore"
)

// Means tells how rules are kept for commands of a Runner, where they are.
const Means = sandbox.ByName

// ErrInside is wrapped where a sandbox of gander's keeps the rules already.
var ErrInside = errors.New("a sandbox of gander's keeps .gooseignore here")

// CanKeepRules tells why macOS cannot keep rules for commands of a Runner; nil when it can.
func CanKeepRules() error {
	said, err := exec.Command("/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "/usr/bin/true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("sandbox-exec does not work here: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

// version tells the rules of a directory from earlier ones: a profile has them as they were
// when its supervisor was started.
func version(root, own string) (v string) {
	for _, name := range []string{filepath.Join(root, ignore.FileName), own} {
		if info, err := os.Stat(name); err == nil {
			v += fmt.Sprintf("\x00%d.%d", info.ModTime().UnixNano(), info.Size())
		} else {
			v += "\x00"
		}
	}
	return v
}

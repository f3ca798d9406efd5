package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// helpers are what this program is besides the tests, by name.
var helpers = map[string]func() error{
	signalTaker:      func() error { return takeSignalsUntilEOF(harmful()) },
	usualSignalTaker: func() error { return takeSignalsUntilEOF(usual()) },
	restricter:       restrictMounts,
	threadTaker:      takeThreads,
}

const helperVariable = "GANDER_TEST_HELPER"

// beHelper does not return when this program was started as one of them.
func beHelper() {
	helper := helpers[os.Getenv(helperVariable)]
	if helper == nil {
		return
	}
	if err := helper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// helper is this program as one of them.
func helper(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	return cmd
}

// problems are what a helper finds.
type problems struct{ error }

func (p *problems) add(format string, args ...any) {
	p.error = errors.Join(p.error, fmt.Errorf(format, args...))
}

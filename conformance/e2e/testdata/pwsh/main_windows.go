// Command pwsh stands in for PowerShell under wine, which has none that runs
// commands: it records its arguments in the file PWSH_RECORD, and lets cmd run the
// last one.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

func main() {
	if err := record(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd := exec.Command("cmd")
	// cmd has rules of its own for quotes: it gets the command as it is.
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /s /c "` + os.Args[len(os.Args)-1] + `"`}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(e.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record() error {
	f, err := os.OpenFile(os.Getenv("PWSH_RECORD"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(strings.Join(os.Args[1:], "|") + "\n"); err != nil {
		return err
	}
	return f.Close()
}

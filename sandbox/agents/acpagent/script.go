package acpagent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
)

// scriptTime bounds a script of ours in a sandbox.
const scriptTime = 10 * time.Second

// RunScript runs a short command of ours in a sandbox, with stdin, and returns the
// first limit bytes of what it printed. A command that fails is an error with what
// it complained of.
func RunScript(ctx context.Context, sb sandbox.Sandbox, cmd sandbox.Command, stdin []byte, limit int64) (string, error) {
	ctx, done := context.WithTimeout(ctx, scriptTime)
	defer done()
	proc, err := sb.Start(ctx, cmd)
	if err != nil {
		return "", err
	}
	kill := func() { _ = proc.Kill(context.WithoutCancel(ctx)) } // it has ended, or its streams are stuck
	defer kill()
	defer context.AfterFunc(ctx, kill)()
	complaint := make(chan string, 1)
	go func() { complaint <- firstBytes(proc.Stderr(), complaintLimit) }()
	go func() {
		_, _ = io.Copy(proc.Stdin(), bytes.NewReader(stdin)) // a script that does not read says why
		_ = proc.Stdin().Close()
	}()
	out := firstBytes(proc.Stdout(), limit)
	said := <-complaint
	status, err := proc.Wait(ctx)
	switch {
	case err != nil:
		return "", err
	case status.Code != 0:
		return "", fmt.Errorf("%s (exit code %d)", strings.TrimSpace(said), status.Code)
	}
	return out, nil
}

// complaintLimit bounds what is kept of what a script complains of, in bytes.
const complaintLimit = 4 << 10

// firstBytes reads all of r and returns its beginning.
func firstBytes(r io.Reader, limit int64) string {
	out, err := io.ReadAll(io.LimitReader(r, limit))
	if err == nil {
		_, _ = io.Copy(io.Discard, r)
	}
	return string(out)
}

// Instructed returns a command that reads instructions before what comes on its stdin.
func Instructed(instructions string, command []string) []string {
	if instructions == "" {
		return command
	}
	const join = `text=$0; { printf '%s\n\n' "$text"; cat; } | "$@"`
	return append([]string{"sh", "-c", join, instructions}, command...)
}

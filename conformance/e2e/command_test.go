package e2e

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// run runs a command as the world's user, its stdin empty, and returns its stdout
// and exit code. Its stderr is logged when the test fails.
func (w *world) run(t *testing.T, env map[string]string, command ...string) (stdout string, code int) {
	t.Helper()
	return w.runFor(t, patience, env, command...)
}

// runFor is run for a command that takes long.
func (w *world) runFor(t *testing.T, most time.Duration, env map[string]string, command ...string) (stdout string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = w.dir
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	w.become(cmd)
	out, err := cmd.Output()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Logf("stderr: %s", ee.Stderr)
		return string(out), ee.ExitCode()
	}
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return string(out), 0
}

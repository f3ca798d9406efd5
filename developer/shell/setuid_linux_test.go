package shell_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gander.dev/gander/developer/shell"
	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// TestSetUID: a set-uid program becomes its owner where nothing is closed, and does not where
// rules are kept. One that has become root cannot be ended by the person, and does not hold
// up the answer to a cancel.
func TestSetUID(t *testing.T) {
	if os.Geteuid() == 0 {
		asOrdinaryUserWith(t, "/usr/bin/python3")
		return
	}
	program := os.Getenv(setUIDProgram)
	kept, free := keepers(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	line := program + ` -Ic 'import os, time; os.setresuid(0, 0, 0); print("ready", flush=True); time.sleep(20)' & sleep 600`
	var begun time.Time
	_, err := free.Run(ctx, shell.Command{Line: line, Output: func(_, text string) {
		if text == "ready" {
			begun = time.Now()
			cancel()
		}
	}})
	if took := time.Since(begun); !errors.Is(err, context.Canceled) || took > 10*time.Second {
		t.Errorf("cancelled after %v: %v", took, err)
	}
	for _, tt := range []struct {
		runner *shell.Runner
		want   string
	}{{free, "0\n"}, {kept, itoa(os.Getuid()) + "\n"}} {
		r, err := tt.runner.Run(t.Context(), shell.Command{Line: program + " -Ic 'import os; print(os.geteuid())'"})
		if err != nil || r.Merged.Shown != tt.want {
			t.Errorf("keeps rules: %v: %q, %v; want %q", tt.runner.KeepsRules(), r.Merged.Shown, err, tt.want)
		}
	}
}

const setUIDProgram = "GANDER_TEST_SETUID_PROGRAM"

// asOrdinaryUserWith runs the test again as an ordinary user, with a set-uid copy of a program.
func asOrdinaryUserWith(t *testing.T, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gander-setuid-") // others may look into it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	content, err := os.ReadFile(program)
	copied := filepath.Join(dir, filepath.Base(program))
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(copied, content, 0o755), os.Chmod(copied, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(setUIDProgram, copied)
	usertest.Run(t, usertest.Options{Tests: "^" + t.Name() + "$"})
}

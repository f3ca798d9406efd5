package local_test

import (
	"io"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// Timers of gander's own processes inside may be late, those of commands not.
func TestTimersOfCommandsAreExact(t *testing.T) {
	sb := benchSandbox(t)
	p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"cat", "/proc/self/timerslack_ns"}, Env: sandboxtest.Env(), NullStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	slack, err := io.ReadAll(p.Stdout())
	if err != nil || strings.TrimSpace(string(slack)) != "50000" {
		t.Errorf("a command's timers may be late by %q ns, %v", slack, err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

package local_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/trials/probe"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// TestThreadsAreOfTheirProcess: /proc has entries of threads, too, which no list shows.
// What is closed of a process is closed by them.
func TestThreadsAreOfTheirProcess(t *testing.T) {
	const look = `for id in $(seq $FROM $((FROM + 30))); do cat /proc/$id/environ; (exec 3<> /proc/$id/fd/0); (exec 3<> /proc/$id/mem && echo memory); done 2>/dev/null; true`
	for _, private := range []bool{false, true} {
		spec := sandboxtest.Spec(t, -1)
		spec.Rules = &sandbox.Rules{}
		sb := sandboxtest.Create(t, local.New(options(t)), spec)
		victim := sandboxtest.StartCommand(t, sb, sandbox.Command{
			Args: []string{sb.Info().Executable, probe.Verb, "victim", "{}"}, Env: sandboxtest.Env("SECRET=of-the-victim"), Private: private,
		})
		if line, err := bufio.NewReader(victim.Stdout()).ReadString('\n'); err != nil {
			t.Fatal(line, err)
		}
		seen, _, _ := sandboxtest.Run(t, sb, look, fmt.Sprintf("FROM=%d", victim.PID()))
		if open := strings.Contains(seen, "of-the-victim"); open == private {
			t.Errorf("private %v, and its environment was seen: %v", private, open)
		}
		if n := strings.Count(seen, "memory"); private && n > 1 { // of the shell that looks: its own
			t.Errorf("memory of %d processes and threads of a private command could be opened", n)
		} else if !private && n < 3 {
			t.Errorf("memory of %d could be opened of a command that is not private; this shows nothing", n)
		}
		sandboxtest.Kill(t, victim)
	}
}

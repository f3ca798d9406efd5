package local_test

import (
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// What a command sends to all that it may ends neither who starts commands nor the sandbox,
// however soon it does, and keeps no signal from the commands.
func TestSignalsToAll(t *testing.T) {
	for _, signal := range []string{"TERM", "HUP", "USR1", "TERM", "ALRM", "TERM"} {
		sb := sandboxtest.Create(t, newLocal(t), sandbox.Spec{ID: sandboxtest.Mark(), WorkingDir: t.TempDir()})
		for range 2 {
			_, errs, st := sandboxtest.Run(t, sb, "trap '' "+signal+"; kill -"+signal+" -1; sleep 0.1")
			if st.Code != 0 {
				t.Fatalf("SIG%s to all: %+v %s", signal, st, errs)
			}
		}
		out, _, _ := sandboxtest.Run(t, sb, "grep SigBlk /proc/self/status")
		if out != "SigBlk:\t0000000000000000\n" {
			t.Errorf("a command has %q", out)
		}
		_, _, st := sandboxtest.Run(t, sb, "kill -"+signal+" $$; sleep 10")
		if st.Signal != signal {
			t.Errorf("a command that sends itself SIG%s ended with %+v", signal, st)
		}
	}
}

package sandboxtest

import (
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

// TestConsumption tests that the account of a sandbox has what was used in it, and nothing
// of what another used meanwhile.
func TestConsumption(t *testing.T, newDriver NewDriver, owner int) {
	const (
		held   = 50_000_000 // bytes
		worked = 300 * time.Millisecond
	)
	d := newDriver(t)
	busy, idle := Create(t, d, Spec(t, owner)), Create(t, d, Spec(t, owner))
	busyBefore, idleBefore := settled(t, busy), settled(t, idle)
	p := Start(t, busy, `a=$(head -c 50000000 /dev/zero | tr '\0' x); i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; echo ready; read -r line`)
	if line := readLine(t, p.Stdout()); line != "ready" {
		t.Fatalf("the worker says %q", line)
	}
	busyNow, idleNow := consumption(t, busy), consumption(t, idle)
	Kill(t, p)
	if cpu, memory := busyNow.CPU-busyBefore.CPU, busyNow.Memory-busyBefore.Memory; cpu < worked || memory < held*9/10 {
		t.Errorf("%v of the processors and %d more bytes of memory are counted of one that works", cpu, memory)
	}
	if cpu, memory := idleNow.CPU-idleBefore.CPU, idleNow.Memory-idleBefore.Memory; cpu > worked/3 || memory > held/2 {
		t.Errorf("%v of the processors and %d more bytes of memory are counted of one that does nothing", cpu, memory)
	}
	if after := consumption(t, busy); after.Memory > busyNow.Memory-held/2 || after.CPU < busyNow.CPU {
		t.Errorf("with the worker gone the account is %+v, was %+v", after, busyNow)
	}
}

// settled is the account of a sandbox that has done what it does ahead of any command.
func settled(t *testing.T, sb sandbox.Sandbox) sandbox.Consumption {
	t.Helper()
	const still = 200 * time.Millisecond
	last := consumption(t, sb)
	for begun := time.Now(); ; {
		time.Sleep(still)
		now := consumption(t, sb)
		if now.CPU-last.CPU < still/20 {
			return now
		}
		if time.Since(begun) > patience {
			t.Fatalf("a sandbox in which nothing runs used %v in %v", now.CPU-last.CPU, still)
		}
		last = now
	}
}

func consumption(t *testing.T, sb sandbox.Sandbox) sandbox.Consumption {
	t.Helper()
	counted, ok := sb.(sandbox.Counted)
	if !ok {
		t.Fatal("the sandbox is not Counted")
	}
	c, err := counted.Consumption(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

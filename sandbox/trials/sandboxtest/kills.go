package sandboxtest

import (
	"os"
	"strconv"
	"testing"
)

const (
	// killsVariable says how many commands TestKills kills.
	killsVariable = "GANDER_SANDBOX_KILLS"
	usualKills    = 5
	// killsPerSandbox is after how many another sandbox is made, and the one before
	// closed while a command runs in it.
	killsPerSandbox = 11
)

// TestKills kills commands that try to escape, one shape after the other, in one
// sandbox after the other, and closes each with one that runs. Nothing of them may
// live afterwards, and no mount may be left, in whatever namespace, nor what left finds: it
// is asked after each close, and may be nil. owner is as for TestDriver.
func TestKills(t *testing.T, newDriver NewDriver, owner int, left func() error) {
	kills := usualKills
	if n := os.Getenv(killsVariable); n != "" {
		var err error
		if kills, err = strconv.Atoi(n); err != nil {
			t.Fatalf("%s: %v", killsVariable, err)
		}
	}
	d, all := newDriver(t), shapes()
	for done := 0; done < kills; {
		spec := Spec(t, owner)
		sb := Create(t, d, spec)
		for range min(killsPerSandbox, kills-done) {
			s, mark := all[done%len(all)], Mark()
			p := Start(t, sb, s.script, mark)
			readLine(t, p.Stdout())
			Kill(t, p)
			if alive := Survivors(mark); len(alive) > 0 {
				t.Fatalf("kill %d, %s: survivors: %q", done, s.name, alive)
			}
			Wait(t, p)
			done++
		}
		mounts := lookAtMounts(t, sb, spec)
		s, mark := all[done/killsPerSandbox%len(all)], Mark()
		readLine(t, Start(t, sb, s.script, mark).Stdout())
		if err := sb.Close(); err != nil {
			t.Fatal(err)
		}
		if alive := Survivors(mark); len(alive) > 0 {
			t.Fatalf("close after kill %d, %s: survivors: %q", done, s.name, alive)
		}
		if left != nil {
			if err := left(); err != nil {
				t.Fatalf("close after kill %d: %v", done, err)
			}
		}
		mounts.checkGone(t)
	}
	t.Logf("%d commands killed", kills)
}

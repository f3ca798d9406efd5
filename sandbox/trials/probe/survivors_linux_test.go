package probe

import (
	"crypto/rand"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What replaces itself all the time does not outlive its control.
func TestKillAll(t *testing.T) {
	for range 3 {
		mark := "GANDER_PROBE_TAG=" + rand.Text()
		const replaced = `sh -c "$RUN" & exit 0`
		cmd := exec.Command("sh", "-c", replaced)
		cmd.Env = []string{"PATH=" + searchPath, mark, "RUN=" + replaced}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		group := cmd.Process.Pid
		t.Cleanup(func() { _ = unix.Kill(-group, unix.SIGKILL) })
		for begun := time.Now(); len(survivors(mark)) == 0; {
			if time.Since(begun) > patienceOutside {
				t.Fatal("it is never seen")
			}
		}
		killAll(mark)
		gone := func() bool { return errors.Is(unix.Kill(-group, 0), unix.ESRCH) }
		for begun := time.Now(); !gone(); time.Sleep(time.Millisecond) { // until the last is reaped
			if time.Since(begun) > patienceOutside {
				t.Fatal("it goes on")
			}
		}
	}
}

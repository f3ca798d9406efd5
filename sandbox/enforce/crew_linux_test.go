package enforce

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stuckUse has a call in the background that waits for the host, and goes on meanwhile.
const stuckUse = "going on beside a call that waits"

func stuckUses() map[string]func(string) ([]byte, error) {
	return map[string]func(string) ([]byte, error){
		stuckUse: script(`echo > a; mv a b & echo $! > pid.new; cp pid.new pid
until [ -e go ]; do sleep 0.02; done; cat open > copy; wait; test -e b`),
	}
}

// Who answers a call that takes long does not keep the others from being answered.
func TestStuckCall(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	s := start(t, dir, testPolicy(), placement{}, "use", stuckUse)
	release := s.guard.Hold(time.Minute)
	defer release()
	var pid string
	waitFor(t, "the process that is to be stuck", func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, "pid"))
		pid = strings.TrimSpace(string(raw))
		return err == nil && pid != ""
	})
	waitFor(t, "a rename that waits", func() bool {
		raw, _ := os.ReadFile("/proc/" + pid + "/syscall") // mv is not there yet, or on its way
		var call int
		_, err := fmt.Sscan(string(raw), &call)
		return err == nil && (call == unix.SYS_RENAMEAT || call == unix.SYS_RENAMEAT2)
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "what is done beside it", func() bool {
		info, err := os.Stat(filepath.Join(dir, "copy"))
		return err == nil && info.Size() > 0
	})
	if !release() {
		t.Fatal("the names were let go too early to know")
	}
	var r report
	s.run(t, &r)
	if !r.Leak {
		t.Errorf("the work fails: %s", r.Said)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(50 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

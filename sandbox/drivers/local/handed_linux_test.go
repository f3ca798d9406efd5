package local_test

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// Output that nobody has read is closed when nobody can read it any more.
func TestUnreadOutputIsClosed(t *testing.T) {
	sb := benchSandbox(t)
	run := func(n int) {
		for range n {
			p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "echo out; echo err >&2"}, Env: sandboxtest.Env(), NullStdin: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	run(2)
	collect := debug.SetGCPercent(-1)
	before := -1
	for n := open(); n != before; n = open() { // what tests before this one left is collected first
		before = n
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
	run(50)
	if n := open() - before; n < 100 {
		t.Errorf("%d descriptors for the output of 50 commands; does the supervisor copy it?", n)
	}
	debug.SetGCPercent(collect)
	for begun := time.Now(); open() > before+10; time.Sleep(20 * time.Millisecond) {
		runtime.GC()
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%d descriptors are open, %d were before", open(), before)
		}
	}
}

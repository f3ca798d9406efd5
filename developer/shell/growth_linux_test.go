package shell_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/developer/shell"
)

// footprint is what a server has at a moment, its supervisors included.
type footprint struct {
	goroutines, files, children, childFiles int
	heap, childMemory                       int64 // bytes
	jobs, spooled                           int
}

func takeFootprint(r *shell.Runner, spool string) (f footprint) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.heap, f.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	f.files = entries("/proc/self/fd")
	for _, pid := range below(os.Getpid()) {
		f.children++
		f.childFiles += entries("/proc/" + itoa(pid) + "/fd")
		f.childMemory += memory(pid)
	}
	found, _ := filepath.Glob(spool + "/*/*")
	f.jobs, f.spooled = len(r.Jobs("")), len(found)
	return f
}

func entries(dir string) int {
	list, _ := os.ReadDir(dir)
	return len(list)
}

// below lists the descendants of a process.
func below(pid int) (all []int) {
	lists, _ := filepath.Glob("/proc/" + itoa(pid) + "/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for f := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(f)); err == nil {
				all = append(append(all, child), below(child)...)
			}
		}
	}
	return all
}

// memory is what a process has of its own, in bytes.
func memory(pid int) int64 {
	text, _ := os.ReadFile("/proc/" + itoa(pid) + "/status")
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	var kb int64
	_, _ = fmt.Sscanf(rest, "%d", &kb)
	return kb << 10
}

// longest is when TestNoGrowth stops, however many calls are left.
const longest = time.Hour

// TestNoGrowth runs many short commands, of all sorts, and finds nothing that grows.
func TestNoGrowth(t *testing.T) {
	calls := count(t, "GANDER_SHELL_CALLS", 500)
	spool := t.TempDir()
	r := newRunner(t, shell.Options{SpoolDir: spool, SpoolLimit: 1 << 20, Log: quiet})
	done, begun := 0, time.Now()
	batch := func(n int, until time.Duration) {
		work := make(chan int)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for i := range work {
					oneOfMany(t, r, i)
				}
			})
		}
		for i := 0; i < n && time.Since(begun) < until; i++ {
			work <- i
			done++
		}
		close(work)
		wg.Wait()
	}
	batch(calls/10, longest/10)
	before := takeFootprint(r, spool)
	batch(calls-calls/10, longest)
	var after footprint
	// What ends a moment later is no growth.
	eventually(t, "nothing has grown", func() bool {
		after = takeFootprint(r, spool)
		return after.goroutines <= before.goroutines+4 && after.files <= before.files+4 &&
			after.children <= before.children+2 && after.childFiles <= before.childFiles+20
	})
	t.Logf("%d calls in %v", done, time.Since(begun))
	t.Logf("before %+v", before)
	t.Logf("after  %+v", after)
	grown := after.childMemory - before.childMemory
	if raceEnabled { // what the detector needs for itself; make limits measures without it
		grown = 0
	}
	if after.heap > before.heap+4<<20 || grown > 24<<20 || after.jobs > 70 || after.spooled > 1010 {
		t.Errorf("something has grown")
	}
}

func oneOfMany(t *testing.T, r *shell.Runner, i int) {
	c := shell.Command{Line: "true"}
	switch i % 100 {
	case 1:
		c.Line = "seq 200" // has a file
	case 2:
		c.Line = "exit 3"
	case 3:
		c.Line = "sleep 0.001 & (setsid true &)"
	case 4:
		c.Dir = "/nonexistent"
	}
	c.Output = func(string, string) {}
	if _, err := r.Run(t.Context(), c); (err != nil) != (c.Dir != "") {
		t.Errorf("%q: %v", c.Line, err)
	}
}

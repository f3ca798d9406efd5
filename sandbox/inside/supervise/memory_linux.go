package supervise

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// How often what a sandbox's processes use is summed, where no control group bounds it: the
// second when more than half of the bound is used.
const (
	memoryPause = 250 * time.Millisecond
	memoryHaste = 20 * time.Millisecond
)

// boundMemory kills the process that uses most, as long as all together use more memory than
// the bound, and tells of each. It ends with the supervisor.
func (l *linux) boundMemory(bound int64, exceeded func()) {
	killed := snapshot{}
	for {
		used, largest, err := l.useOfMemory(residentOf, killed)
		if err == nil && used > bound { // what processes share is in that more than once
			used, largest, err = l.useOfMemory(shareOf, killed)
		}
		if err != nil {
			l.log.Debug("the use of memory is not known in full", "error", err)
		}
		switch {
		case used > bound && largest.pid > 0:
			killProc(largest.procID)
			killed[largest.procID] = struct{}{}
			exceeded()
		case used > bound/2:
			time.Sleep(memoryHaste)
		default:
			clear(killed)
			time.Sleep(memoryPause)
		}
	}
}

// useOfMemory sums what processes use, but for gander's own and those that were killed, and
// returns the one that uses most.
func (l *linux) useOfMemory(of func(pid int) int64, killed snapshot) (sum int64, largest proc, err error) {
	most := int64(0)
	s := look(l.pid, snapshot{}, func(p proc) {
		if _, dying := killed[p.procID]; dying || p.pid == l.launcher || l.isShepherd(p) {
			return
		}
		n := of(p.pid)
		if sum += n; n > most {
			most, largest = n, p
		}
	})
	return sum, largest, s.err
}

// residentOf is the memory that a process has, also what it shares with others; 0 when it has
// ended.
func residentOf(pid int) int64 {
	raw, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	f := bytes.Fields(raw)
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(f[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// shareOf is a process's own memory and its part of what it shares. One that the kernel does
// not let be looked into counts in full.
func shareOf(pid int) int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	_, rest, ok := bytes.Cut(raw, []byte("\nPss:"))
	if err != nil || !ok {
		return residentOf(pid)
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(line, []byte("kB")))), 10, 64)
	if err != nil {
		return residentOf(pid)
	}
	return kib << 10
}

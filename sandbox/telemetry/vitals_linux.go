package telemetry

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// ticks is how many there are of the kernel's clock in a second, for programs.
const ticks = 100

// process is what /proc says of one.
type process struct {
	parent int
	cpu    time.Duration // with that of its children that have ended
	memory int64
}

// use is what this process and all below it have used of the processors, and use of the
// memory now.
func use() (cpu time.Duration, memory int64) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, 0
	}
	all := map[int]process{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := readProcess(e.Name()); ok {
				all[pid] = p
			}
		}
	}
	self := os.Getpid()
	for pid, p := range all {
		if below(all, pid, self) {
			cpu += p.cpu
			memory += p.memory
		}
	}
	return cpu, memory
}

// below reports whether a process is root or descends from it.
func below(all map[int]process, pid, root int) bool {
	for range len(all) + 1 {
		if pid == root {
			return true
		}
		p, ok := all[pid]
		if !ok {
			return false
		}
		pid = p.parent
	}
	return false
}

func readProcess(pid string) (p process, ok bool) {
	line, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return p, false
	}
	// The name is in parentheses and may contain anything.
	_, rest, _ := bytes.Cut(line[max(bytes.LastIndexByte(line, ')'), 0):], []byte(") "))
	f := bytes.Fields(rest)
	if len(f) < 20 {
		return p, false
	}
	p.parent, _ = strconv.Atoi(string(f[1]))
	for _, field := range f[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(string(field), 10, 64)
		p.cpu += time.Duration(n) * time.Second / ticks
	}
	if line, err = os.ReadFile("/proc/" + pid + "/statm"); err == nil {
		if f = bytes.Fields(line); len(f) > 2 {
			resident, _ := strconv.ParseInt(string(f[1]), 10, 64)
			shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
			p.memory = max(0, resident-shared) * int64(os.Getpagesize())
		}
	}
	return p, true
}

// allocated is what a file takes up on the disk.
func allocated(info fs.FileInfo) int64 {
	const block = 512
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * block
	}
	return info.Size()
}

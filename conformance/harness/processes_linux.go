package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CanSeeProcesses says whether leftovers can be found on this system.
const CanSeeProcesses = true

// A Process is one that carries a mark.
type Process struct {
	PID  int
	Args string
}

// Marked are the processes with a mark in their arguments or environment.
// Whatever a marked shell starts inherits it, wherever it goes; a dead process
// that waits to be reaped is not one.
func Marked(mark string) []Process {
	names, _ := filepath.Glob("/proc/[0-9]*")
	var found []Process
	for _, dir := range names {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !bytes.Contains(args, []byte(mark)) && !bytes.Contains(environ, []byte(mark)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && pid != os.Getpid() && running(dir) {
			found = append(found, Process{pid, strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))})
		}
	}
	return found
}

func running(dir string) bool {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

// KillMarked ends what a server left behind: nothing that the harness started
// stays, however broken the server is. One look that finds nothing is not enough: a
// program that is about to become another one cannot be looked at.
func KillMarked(mark string) {
	quiet := 0
	for range 20 {
		left := Marked(mark)
		for _, p := range left {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		if quiet++; len(left) > 0 {
			quiet = 0
		}
		if quiet == 2 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Stillborn reports whether a process of wine's has run no code but its loader's: it
// has one thread and handles no signal, which is the first thing that wine does.
func Stillborn(pid int) bool {
	status, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	return bytes.Contains(status, []byte("\nThreads:\t1\n")) && bytes.Contains(status, []byte("\nSigCgt:\t0000000000000000\n"))
}

// Usage is what a process holds.
type Usage struct {
	// Resident and Peak are bytes of memory.
	Resident, Peak       int64
	Descriptors, Threads int
}

// UsageOf reads what a process holds; nothing when there is none.
func UsageOf(pid int) Usage {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, _ := os.ReadFile(filepath.Join(dir, "status"))
	files, _ := os.ReadDir(filepath.Join(dir, "fd"))
	u := Usage{Descriptors: len(files)}
	for line := range strings.Lines(string(status)) {
		key, rest, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
		switch key {
		case "VmRSS":
			u.Resident = n << 10
		case "VmHWM":
			u.Peak = n << 10
		case "Threads":
			u.Threads = int(n)
		}
	}
	return u
}

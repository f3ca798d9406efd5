package supervise

import (
	"bytes"
	"context"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func (r *run) members() (found []proc) {
	r.look(func(p proc) { found = append(found, p) })
	return found
}

// look visits what lives of the run. It keeps the shepherd from beginning another
// one meanwhile, which would be taken for this. False means that this one has ended.
func (r *run) look(visit func(proc)) bool {
	r.herd.mu.Lock()
	defer r.herd.mu.Unlock()
	if r.herd.run != r {
		return false
	}
	look(r.herd.pid, snapshot{}, visit)
	return true
}

// polite sends TERM to every process once, also to those that are born meanwhile
// and to those that left the process group.
func (r *run) polite(ctx context.Context) {
	asked := snapshot{}
	for pass := 0; ; pass++ {
		listening := false
		going := r.look(func(p proc) {
			if _, done := asked[p.procID]; !done {
				asked[p.procID] = struct{}{}
				signalProc(p.procID, unix.SIGTERM)
			}
			listening = listening || listens(p)
		})
		if !going || !listening || pause(ctx, pass) != nil {
			return
		}
	}
}

// listens says whether a process may still end of its own accord: it neither
// ignores TERM nor holds it back, and it runs.
func listens(p proc) bool {
	if p.stopped {
		return false
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
	if err != nil {
		return false
	}
	const term = 1 << (unix.SIGTERM - 1)
	return (signalSet(status, "SigIgn:")|signalSet(status, "SigBlk:"))&term == 0
}

// signalSet reads a set of signals from /proc/PID/status.
func signalSet(status []byte, name string) uint64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	set, _ := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return set
}

// processName is the command line, its arguments apart by spaces, as far as it fits in
// maxMemberName.
func processName(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	line, err := firstOf(dir + "/cmdline")
	if err == nil && len(line) == 0 {
		line, _ = firstOf(dir + "/comm")
	}
	return string(bytes.TrimSpace(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
}

// firstOf is the first of a file of a process, which says itself where in its memory its
// command line is (PR_SET_MM_MAP), and how long: that may be all.
func firstOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxMemberName))
}

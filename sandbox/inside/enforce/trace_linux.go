package enforce

import (
	"bytes"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Who is traced with PTRACE_O_TRACEEXIT waits for its tracer when it has been killed, and
// no further signal ends that. Two that trace each other so would never end, nor the PID
// namespace that waits for their end. So nobody does, who is traced itself: strace shows
// everything but another strace.

// oldSetOptions is PTRACE_OLDSETOPTIONS of amd64, which no other has.
const oldSetOptions = 21

// maxTracing is how many processes are remembered before it is looked which of them live.
const maxTracing = 256

// process names a process for all time.
type process struct {
	id    int
	start string // as proc has it
}

// tracing are the processes that were permitted to trace with PTRACE_O_TRACEEXIT, and
// those that they trace. It is safe for concurrent use.
type tracing struct {
	mu             sync.Mutex
	traces, traced map[process]struct{}
}

// add takes in two processes, unless one would be traced and trace.
func (r *tracing) add(g *Guard, tracer, other process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, isTraced := r.traced[tracer]
	_, alsoTraces := r.traces[other]
	if isTraced || alsoTraces {
		return false
	}
	for _, list := range []*map[process]struct{}{&r.traces, &r.traced} {
		if *list == nil {
			*list = map[process]struct{}{}
		}
		for p := range *list {
			if len(*list) >= maxTracing && g.process(p.id) != p {
				delete(*list, p)
			}
		}
	}
	r.traces[tracer], r.traced[other] = struct{}{}, struct{}{}
	return true
}

// process is the one of a number; without a start when there is none.
func (g *Guard) process(id int) process {
	const start = 22 - 3 // the name, the second, may have anything in it
	raw, _ := g.procFile(decimal(id) + "/stat")
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= start {
		return process{id: id}
	}
	return process{id, string(fields[start])}
}

// ptrace is left to the kernel when the process is inside. What is judged are registers,
// which the caller cannot change meanwhile.
func (t *task) ptrace() answer {
	request, pid := uint32(t.arg(0)), int(int32(t.arg(1)))
	if request == unix.PTRACE_TRACEME {
		return proceed()
	}
	a := t.touch(pid)
	if sets := request == unix.PTRACE_SEIZE || request == unix.PTRACE_SETOPTIONS || request == oldSetOptions; a.proceed && sets && t.arg(3)&unix.PTRACE_O_TRACEEXIT != 0 && !t.mayTraceEnd(pid) {
		return done(unix.EPERM)
	}
	return a
}

// mayTraceEnd decides whether the caller may trace a thread up to its end.
func (t *task) mayTraceEnd(pid int) bool {
	own := t.process()
	threads, err := os.ReadDir("/proc/" + decimal(own) + "/task")
	if err != nil {
		return false
	}
	for _, thread := range threads { // of what is traced children are from their beginning
		status, err := t.g.procFile(thread.Name() + "/status")
		if err == nil && statusField(status, "TracerPid:") != "0" {
			return false
		}
	}
	return t.g.tracing.add(t.g, t.g.process(own), t.g.process(t.g.processOf(pid)))
}

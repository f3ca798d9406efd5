package enforce

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// followOften is how often the near worker may look where the thread is that calls,
	// when its calls come late, followSeldom how often it looks anyway: a look costs a
	// quarter of what the answer to a call does.
	followOften, followSeldom = 100 * time.Microsecond, time.Millisecond
)

// follower keeps the near worker on the processor of who calls. Calls that come later
// than usual tell that they are apart: then each of the two has to wake a processor.
type follower struct {
	proc      int // the directory
	thread    int
	stat      int // its file in proc (proc_pid_stat(5)), or -1
	processor int // where both are, or -1
	looked    time.Time
	called    time.Time
	usual     time.Duration // from call to call
	buf       [1024]byte
}

func newFollower(proc int) *follower { return &follower{proc: proc, stat: -1, processor: -1} }

func (f *follower) close() {
	if f.stat >= 0 {
		_ = unix.Close(f.stat)
	}
	f.thread, f.stat = 0, -1
}

// follow is told of each call of a thread.
func (f *follower) follow(thread int, now time.Time) {
	took := now.Sub(f.called)
	late := took > f.usual+f.usual/2
	f.called = now
	f.usual += (min(took, 2*f.usual+time.Microsecond) - f.usual) / 8 // a rest is not the usual
	since := now.Sub(f.looked)
	switch {
	case thread != f.thread:
		f.close()
		f.thread = thread
	case since < followOften, since < followSeldom && !late:
		return
	}
	f.looked = now
	there := f.look()
	if there == f.processor || there < 0 {
		return
	}
	var only unix.CPUSet
	only.Set(there)
	if unix.SchedSetaffinity(0, &only) == nil {
		f.processor = there
	}
}

// look is where the thread ran last, or -1.
func (f *follower) look() int {
	const field = 39 - 2 // the name, the second, may have anything in it
	if f.stat < 0 {
		fd, err := unix.Openat(f.proc, decimal(f.thread)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1
		}
		f.stat = fd
	}
	n, err := unix.Pread(f.stat, f.buf[:], 0)
	if err != nil {
		return -1
	}
	rest := f.buf[bytes.LastIndexByte(f.buf[:n], ')')+1 : n]
	for range field {
		_, rest, _ = bytes.Cut(rest, []byte{' '})
	}
	number, _, _ := bytes.Cut(rest, []byte{' '})
	there, err := strconv.Atoi(string(number))
	if err != nil {
		return -1
	}
	return there
}

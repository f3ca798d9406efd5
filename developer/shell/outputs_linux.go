package shell

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// outputs are pipes of our own that a command writes to, so that its output does not
// go through the supervisor, which would cost several copies.
type outputs struct {
	read, write [streams]*os.File

	// mu guards wake, an event descriptor by which the reader is stopped; -1 when it has ended.
	mu   sync.Mutex
	wake int
}

// pipeSize is how much of stdout a pipe holds, if our share of pipe memory permits:
// each time it is full or empty costs a change of processes.
const pipeSize = 1 << 20

// redirect makes the pipes and has the command use them. The supervisor lives in our
// PID namespace, for it is our child, and opens them by their names in /proc.
func redirect(cmd *sandbox.Command) (*outputs, error) {
	o := &outputs{wake: -1}
	for s := range streams {
		r, w, err := os.Pipe()
		if err != nil {
			o.close()
			return nil, fmt.Errorf("making pipes for a command's output: %w", err)
		}
		o.read[s], o.write[s] = r, w
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		o.close()
		return nil, fmt.Errorf("preparing to read a command's output: %w", err)
	}
	o.wake = wake
	_, _ = unix.FcntlInt(o.write[stdout].Fd(), unix.F_SETPIPE_SZ, pipeSize)
	cmd.StdoutPath, cmd.StderrPath = nameOf(o.write[stdout]), nameOf(o.write[stderr])
	return o, nil
}

func nameOf(w *os.File) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), w.Fd())
}

// begun is when the command has the pipes: they end when nobody else holds them.
func (o *outputs) begun(supervise.Process) { closeAll(o.write[:]) }

// readAll passes on what arrives, until both streams have ended or stop is called. One reader
// waits for both, so that it comes in the order in which it was written, as far as the
// reader is in time to see that.
func (o *outputs) readAll(buf []byte, take func(stream, []byte), end func(stream)) {
	defer o.close()
	wait := []unix.PollFd{
		{Fd: int32(o.read[stdout].Fd()), Events: unix.POLLIN}, {Fd: int32(o.read[stderr].Fd()), Events: unix.POLLIN}, {Fd: int32(o.wake), Events: unix.POLLIN},
	}
	for open := int(streams); open > 0; {
		if _, err := unix.Poll(wait, -1); err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
		if wait[streams].Revents != 0 {
			break
		}
		for s := range streams {
			if wait[s].Fd < 0 || wait[s].Revents == 0 {
				continue
			}
			n, err := unix.Read(int(wait[s].Fd), buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n > 0 {
				take(s, buf[:n])
				continue
			}
			end(s)
			wait[s].Fd = -1 // which poll passes over
			open--
		}
	}
	for s := range streams {
		if wait[s].Fd >= 0 {
			end(s)
		}
	}
}

// stop has readAll return.
func (o *outputs) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wake >= 0 {
		_, _ = unix.Write(o.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (o *outputs) close() {
	closeAll(o.read[:])
	closeAll(o.write[:])
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wake >= 0 {
		_ = unix.Close(o.wake)
		o.wake = -1
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

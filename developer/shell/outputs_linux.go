package shell

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// outputs are pipes of our own that a command writes to, so that its output does not
// go through the supervisor, which would cost several copies.
type outputs struct{ read, write [streams]*os.File }

// pipeSize is how much of stdout a pipe holds, if our share of pipe memory permits:
// each time it is full or empty costs a change of processes.
const pipeSize = 1 << 20

// redirect makes the pipes and has the command use them. The supervisor lives in our
// PID namespace, for it is our child, and opens them by their names in /proc.
func redirect(cmd *sandbox.Command) (*outputs, error) {
	o := &outputs{}
	for s := range streams {
		r, w, err := os.Pipe()
		if err != nil {
			o.close()
			return nil, fmt.Errorf("making pipes for a command's output: %w", err)
		}
		o.read[s], o.write[s] = r, w
	}
	_, _ = unix.FcntlInt(o.write[stdout].Fd(), unix.F_SETPIPE_SZ, pipeSize)
	cmd.StdoutPath, cmd.StderrPath = nameOf(o.write[stdout]), nameOf(o.write[stderr])
	return o, nil
}

func nameOf(w *os.File) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), w.Fd())
}

// begun is when the command has the pipes: they end when nobody else holds them.
func (o *outputs) begun(supervise.Process) [streams]io.ReadCloser {
	closeAll(o.write[:])
	return [streams]io.ReadCloser{o.read[stdout], o.read[stderr]}
}

func (o *outputs) close() {
	closeAll(o.read[:])
	closeAll(o.write[:])
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

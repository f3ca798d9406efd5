package supervise

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// LocalConn is the host's end of the connection to a supervisor that is a child of this
// process. Besides the byte stream it carries files: the standard streams of commands
// are then pipes between the host and the command, and nobody copies.
type LocalConn struct {
	in, out *os.File
	files   *frameWriter
}

// SupervisorFiles are the supervisor's ends: its stdin, its stdout and its descriptor 3.
// Close them when it has been started.
type SupervisorFiles struct{ Stdin, Stdout, Handover *os.File }

// Close closes all.
func (f SupervisorFiles) Close() error {
	return errors.Join(f.Stdin.Close(), f.Stdout.Close(), f.Handover.Close())
}

// NewLocalConn makes a connection.
func NewLocalConn() (*LocalConn, SupervisorFiles, error) {
	var c LocalConn
	var theirs SupervisorFiles
	var err error
	if theirs.Stdin, c.out, err = os.Pipe(); err != nil {
		return nil, theirs, fmt.Errorf("making a pipe: %w", err)
	}
	if c.in, theirs.Stdout, err = os.Pipe(); err != nil {
		closeFiles(theirs.Stdin, c.out)
		return nil, theirs, fmt.Errorf("making a pipe: %w", err)
	}
	files, err := oneWay()
	if err != nil {
		closeFiles(theirs.Stdin, theirs.Stdout, c.in, c.out)
		return nil, theirs, err
	}
	theirs.Handover, c.files = socket(files[0]), &frameWriter{file: socket(files[1])}
	return &c, theirs, nil
}

func (c *LocalConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *LocalConn) Write(b []byte) (int, error) { return c.out.Write(b) }

// Close closes everything.
func (c *LocalConn) Close() error {
	return errors.Join(c.in.Close(), c.out.Close(), c.files.Close())
}

// handedFiles go with descriptors, before the request that starts the process.
type handedFiles struct {
	Process uint64 `json:"process"`
}

func (c *LocalConn) handOver(process uint64, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return c.files.send(handedFiles{process}, fds...)
}

// handover is the supervisor's end of it.
type handover struct {
	in frameReader

	// mu guards early, files of processes whose start is not handled yet.
	mu    sync.Mutex
	early map[uint64][]*os.File
}

// newHandover takes the descriptor over that the driver has passed on.
func newHandover() (*handover, error) {
	unix.CloseOnExec(ownerFD)
	return &handover{in: frameReader{os.NewFile(ownerFD, "handover")}, early: map[uint64][]*os.File{}}, nil
}

// take returns the files for a process, which were sent before its start was asked for.
func (h *handover) take(process uint64) ([]*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if files, ok := h.early[process]; ok {
			delete(h.early, process)
			return files, nil
		}
		var m handedFiles
		fds, err := h.in.receive(&m)
		if err != nil {
			return nil, fmt.Errorf("receiving the streams of process %d: %w", process, err)
		}
		files := make([]*os.File, len(fds))
		for i, fd := range fds {
			files[i] = os.NewFile(uintptr(fd), "stdio")
		}
		h.early[m.Process] = files
	}
}

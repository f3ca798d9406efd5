package supervise

import (
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// LocalConn is the host's end of the connection to a supervisor that is a child of this
// process. Besides the byte stream it carries files: the standard streams of commands
// are then pipes between the host and the command, and nobody copies.
type LocalConn struct {
	net.Conn
	files *fdConn
}

// NewLocalConn makes a connection. The supervisor must get stdio as its stdin and stdout
// and files as its descriptor 3; the caller closes both.
func NewLocalConn() (conn *LocalConn, stdio, files *os.File, err error) {
	stream, stdio, err := socketPair()
	if err != nil {
		return nil, nil, nil, err
	}
	side, files, err := socketPair()
	if err != nil {
		_, _ = stream.Close(), stdio.Close()
		return nil, nil, nil, err
	}
	return &LocalConn{stream.UnixConn, side}, stdio, files, nil
}

// Close closes both connections.
func (c *LocalConn) Close() error {
	err := c.Conn.Close()
	_ = c.files.Close()
	return err
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
	conn *fdConn

	// mu guards early, files of processes whose start is not handled yet.
	mu    sync.Mutex
	early map[uint64][]*os.File
}

// newHandover takes the descriptor over that the driver has passed on.
func newHandover() (*handover, error) {
	unix.CloseOnExec(ownerFD)
	conn, err := newFDConn(os.NewFile(ownerFD, "handover"))
	if err != nil {
		return nil, err
	}
	return &handover{conn: conn, early: map[uint64][]*os.File{}}, nil
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
		fds, err := h.conn.receive(&m)
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

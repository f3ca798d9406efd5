package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
)

// handedStreams are pipes between the host and the command.
type handedStreams struct {
	stdin          *input // nil with the null device
	stdout, stderr *output
}

// handOver makes the pipes of a process and hands the command's ends to the supervisor.
func (h *Host) handOver(process uint64, nullStdin bool) (_ streams, err error) {
	var ours, theirs []*os.File
	defer func() {
		closeFiles(theirs...)
		if err != nil {
			closeFiles(ours...)
		}
	}()
	for i := range 3 {
		if i == 0 && nullStdin {
			continue
		}
		our, their, err := halfPipe(i == 0)
		if err != nil {
			return nil, fmt.Errorf("making a pipe: %w", err)
		}
		ours, theirs = append(ours, our), append(theirs, their)
	}
	err = h.files.handOver(process, theirs)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil, sandbox.ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("handing its standard streams over: %w", err)
	}
	out := ours[len(ours)-2:]
	s := &handedStreams{stdout: &output{host: h, file: out[0]}, stderr: &output{host: h, file: out[1]}}
	if !nullStdin {
		s.stdin = &input{file: ours[0]}
	}
	return s, nil
}

// halfPipe makes a pipe of which our end waits in Go, theirs in the kernel.
func halfPipe(write bool) (our, their *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	mine, other := fds[0], fds[1]
	if write {
		mine, other = other, mine
	}
	// The user's share of pipe memory may not permit it; then it stays as it is.
	_, _ = unix.FcntlInt(uintptr(mine), unix.F_SETPIPE_SZ, bufferSize)
	their = os.NewFile(uintptr(other), "pipe")
	if err := unix.SetNonblock(mine, true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(mine), their.Close())
	}
	return os.NewFile(uintptr(mine), "pipe"), their, nil
}

func (s *handedStreams) in() stdin {
	if s.stdin == nil {
		return nullStdin{}
	}
	return s.stdin
}
func (s *handedStreams) out() io.Reader { return s.stdout }
func (s *handedStreams) err() io.Reader { return s.stderr }
func (s *handedStreams) started()       {}

// close leaves output alone, which may not have been read yet: it is closed at its end,
// or when nobody can read it any more.
func (s *handedStreams) close() {
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
}

// nullStdin is nobody's stdin.
type nullStdin struct{}

func (nullStdin) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (nullStdin) Close() error              { return nil }
func (nullStdin) refuse()                   {}

// input is the host's end of a pipe that a command reads.
type input struct {
	file *os.File
	once sync.Once
}

func (i *input) refuse() { _ = i.file.SetWriteDeadline(time.Unix(1, 0)) }

func (i *input) Write(b []byte) (int, error) {
	n, err := i.file.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
		err = io.ErrClosedPipe
	}
	return n, err
}

func (i *input) Close() (err error) {
	i.once.Do(func() { err = i.file.Close() })
	return err
}

// output is the host's end of a pipe that a command writes.
type output struct {
	host *Host
	file *os.File
}

// Read reads until nobody holds the other end, or the sandbox has ended: who has
// outlived that, where nothing holds all processes together, does not keep the reader.
func (o *output) Read(b []byte) (int, error) {
	o.host.read(o)
	n, err := o.file.Read(b)
	o.host.hasRead(o)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = o.rest(b)
	}
	if err != nil {
		_ = o.file.Close()
		if errors.Is(err, os.ErrClosed) {
			err = io.EOF
		}
	}
	return n, err
}

// rest reads what is there.
func (o *output) rest(b []byte) (n int, err error) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if cerr := raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), b) }); cerr != nil {
		return 0, cerr
	}
	if n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

// interrupt lets a Read return at once.
func (o *output) interrupt() { _ = o.file.SetReadDeadline(time.Unix(1, 0)) }

// read notes that o is read, so that the end of the sandbox ends that.
func (h *Host) read(o *output) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		o.interrupt()
		return
	}
	h.reading[o] = struct{}{}
}

func (h *Host) hasRead(o *output) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.reading, o)
}

package supervise

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFrame bounds a frame: more than the kernel takes as arguments and
// environment of a program, in JSON.
const maxFrame = 8 << 20

// fdConn carries frames between S and L or a shepherd: a 32 bit big-endian length and
// JSON. Each direction has a socket of its own: taking something from a socket wakes who
// waits at its other end, because there is room again, and of a socket for both
// directions that is who waits for the answer.
type fdConn struct {
	frameReader
	*frameWriter
}

// connect makes a connection to a process that will be started, and the descriptors that
// it gets as ownerFD and the next one. A process that takes nothing can be given up after
// answerTime, one that sends nothing at any time.
func connect() (ours *fdConn, theirs []*os.File, err error) {
	up, err := oneWay()
	if err != nil {
		return nil, nil, err
	}
	down, err := oneWay()
	if err != nil {
		closeFDs(up[:])
		return nil, nil, err
	}
	patience := unix.NsecToTimeval(answerTime.Nanoseconds())
	err = errors.Join(unix.SetNonblock(up[0], true), unix.SetsockoptTimeval(down[1], unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience))
	if err != nil {
		closeFDs(append(up[:], down[:]...))
		return nil, nil, fmt.Errorf("preparing a socket: %w", err)
	}
	ours = &fdConn{frameReader{socket(up[0])}, &frameWriter{file: socket(down[1])}}
	return ours, []*os.File{socket(down[0]), socket(up[1])}, nil
}

// oneWay makes a connection for one direction, the end that reads first.
func oneWay() (fds [2]int, err error) {
	if fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		err = fmt.Errorf("making a socket pair: %w", err)
	}
	return fds, err
}

func socket(fd int) *os.File { return os.NewFile(uintptr(fd), "socket") }

// ownerConn is the connection to the owner in L and in a shepherd.
func ownerConn() *fdConn {
	unix.CloseOnExec(ownerFD)
	unix.CloseOnExec(ownerFD + 1)
	return &fdConn{frameReader{os.NewFile(ownerFD, "owner")}, &frameWriter{file: os.NewFile(ownerFD+1, "owner")}}
}

func (c *fdConn) Close() error { return errors.Join(c.frameReader.Close(), c.frameWriter.Close()) }

// frameWriter sends frames, with descriptors.
type frameWriter struct {
	file *os.File

	// mu keeps frames whole.
	mu sync.Mutex
}

func (w *frameWriter) Close() error { return w.file.Close() }

func (w *frameWriter) send(v any, fds ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	if raw.Write(func(fd uintptr) bool {
		n, err = retried(func() (int, error) { return unix.SendmsgN(int(fd), frame, rights, nil, unix.MSG_NOSIGNAL) })
		return true
	}) != nil {
		return os.ErrClosed // nothing else is said of a file that waits in the kernel
	}
	if err == nil && n < len(frame) {
		_, err = w.file.Write(frame[n:])
	}
	return err
}

// frameReader receives them.
type frameReader struct{ file *os.File }

func (r frameReader) Close() error { return r.file.Close() }

// receive reads one frame into v and returns the descriptors that came with it.
func (r frameReader) receive(v any) ([]int, error) {
	var size [4]byte
	n, fds, err := r.begin(size[:])
	if err == nil {
		err = r.receiveBody(size[:], n, v)
	}
	if err != nil {
		closeFDs(fds)
		return nil, err
	}
	return fds, nil
}

// begin reads first bytes of a frame, with which its descriptors come.
func (r frameReader) begin(b []byte) (n int, fds []int, err error) {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	oob := make([]byte, unix.CmsgSpace(3*4))
	oobn := 0
	rerr := raw.Read(func(fd uintptr) bool {
		n, err = retried(func() (int, error) {
			n, o, _, _, err := unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
			oobn = o
			return n, err
		})
		return !errors.Is(err, unix.EAGAIN)
	})
	if err = errors.Join(rerr, err); err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return 0, nil, err
	}
	fds, err = parseRights(oob[:oobn])
	return n, fds, err
}

func (r frameReader) receiveBody(size []byte, have int, v any) error {
	if _, err := io.ReadFull(r.file, size[have:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(size)
	if length > maxFrame {
		return fmt.Errorf("a frame of %d bytes is too long", length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r.file, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// retried is a system call that signals do not interrupt.
func retried(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func parseRights(oob []byte) (fds []int, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range msgs {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			return fds, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

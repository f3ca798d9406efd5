package supervise

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFrame bounds a frame: more than the kernel takes as arguments and
// environment of a program, in JSON.
const maxFrame = 8 << 20

// fdConn carries frames between S, L and the shepherds: a 32 bit big-endian
// length and JSON, with file descriptors riding along.
type fdConn struct {
	*net.UnixConn

	// mu keeps frames whole.
	mu sync.Mutex
}

// socketPair makes both ends of a connection, one to keep and one to give away.
func socketPair() (*fdConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	ours, err := newFDConn(os.NewFile(uintptr(fds[0]), "socket"))
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// newFDConn takes over f.
func newFDConn(f *os.File) (*fdConn, error) {
	defer func() { _ = f.Close() }()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("using the socket to the supervisor: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("using the socket to the supervisor: it is a %T", c)
	}
	return &fdConn{UnixConn: u}, nil
}

func (c *fdConn) send(v any, fds ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _, err := c.WriteMsgUnix(frame, rights, nil)
	if err == nil && n < len(frame) {
		_, err = c.Write(frame[n:])
	}
	return err
}

// receive reads one frame into v and returns the descriptors that came with it.
func (c *fdConn) receive(v any) ([]int, error) {
	var size [4]byte
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := c.ReadMsgUnix(size[:], oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	fds, err := parseRights(oob[:oobn])
	if err == nil {
		err = c.receiveBody(size[:], n, v)
	}
	if err != nil {
		closeFDs(fds)
		return nil, err
	}
	return fds, nil
}

func (c *fdConn) receiveBody(size []byte, have int, v any) error {
	if _, err := io.ReadFull(c, size[have:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(size)
	if length > maxFrame {
		return fmt.Errorf("a frame of %d bytes is too long", length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
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

package supervise

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// window is how much of a stream may be on its way or unread: the memory one
// stream can cost on its reading side.
const window = 1 << 20

// muxConfig turns off every timer of yamux. A host that is stopped in a debugger
// or asleep is not gone; the end of the byte stream is the only sign that it is.
// A close timeout would also cut off the output of a process five minutes after
// its stdin was closed.
func muxConfig(log *slog.Logger) *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = math.MaxInt64 / 4 * time.Nanosecond
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = 0
	c.MaxStreamWindowSize = window
	c.LogOutput = nil
	c.Logger = muxLogger{log}
	return c
}

// muxHeader is the size of a yamux frame's header; its fields say whether data
// of some length follows.
const (
	muxHeader   = 12
	muxTypeData = 0
)

// wholeFrames joins a frame's header and its data into one write, and reads ahead:
// yamux by itself wakes the other side for twelve bytes first. Only one goroutine
// writes and only one reads.
type wholeFrames struct {
	io.ReadWriteCloser
	read  *bufio.Reader
	frame []byte
}

func newWholeFrames(conn io.ReadWriteCloser) *wholeFrames {
	return &wholeFrames{ReadWriteCloser: conn, read: bufio.NewReaderSize(conn, 128<<10)}
}

func (w *wholeFrames) Read(b []byte) (int, error) { return w.read.Read(b) }

func (w *wholeFrames) Write(b []byte) (int, error) {
	if len(w.frame) == 0 && announcesData(b) {
		w.frame = append(w.frame, b...)
		return len(b), nil
	}
	if len(w.frame) == 0 {
		return w.ReadWriteCloser.Write(b)
	}
	w.frame = append(w.frame, b...)
	_, err := w.ReadWriteCloser.Write(w.frame)
	w.frame = w.frame[:0]
	if cap(w.frame) > window {
		w.frame = nil
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func announcesData(b []byte) bool {
	return len(b) == muxHeader && b[1] == muxTypeData && binary.BigEndian.Uint32(b[8:]) > 0
}

// muxLogger passes what yamux says on; it is never about anything a person can act on.
type muxLogger struct{ log *slog.Logger }

func (l muxLogger) Print(v ...any)            { l.log.Debug("multiplexer", "event", v) }
func (l muxLogger) Println(v ...any)          { l.log.Debug("multiplexer", "event", v) }
func (l muxLogger) Printf(f string, v ...any) { l.log.Debug(strings.TrimSpace(f), "event", v) }

// bufferSize is how much is copied at a time, and what pipes hold where the system
// lets us choose: the cost is per piece, not per byte.
const bufferSize = 256 << 10

// buffers lends copy buffers; the zero value is ready.
type buffers struct {
	size int // of each; 0 is bufferSize
	pool sync.Pool
}

func (b *buffers) copy(dst io.Writer, src io.Reader) error {
	buf, ok := b.pool.Get().(*[]byte)
	if !ok {
		fresh := make([]byte, cmp.Or(b.size, bufferSize))
		buf = &fresh
	}
	defer b.pool.Put(buf)
	// Only Read and Write: the shortcuts of io.Copy bring smaller buffers here.
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, *buf)
	return err
}

// splice carries bytes both ways between a stream and a connection until both
// directions have ended. abort, called at most once, says that the connection
// broke while the peer was still sending.
func (b *buffers) splice(stream *yamux.Stream, conn net.Conn, abort func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = b.copy(stream, conn)
		_ = stream.Close()
	})
	if err := b.copy(conn, stream); err != nil {
		abort()
		_ = conn.Close()
		_, _ = io.Copy(io.Discard, stream)
	}
	closeWrite(conn)
	wg.Wait()
	_ = conn.Close()
}

func closeWrite(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
		return
	}
	_ = conn.Close()
}

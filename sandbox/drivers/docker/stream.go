package docker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
)

// stream is the supervisor's stdin and stdout. The daemon sends a container's
// output in frames, {kind, 0, 0, 0, size in 32 bits big-endian} and that many
// bytes; those of stderr are logged while stdout is read. One goroutine may read.
type stream struct {
	conn net.Conn
	in   *bufio.Reader
	log  *slog.Logger
	left int // unread bytes of a frame of stdout

	// mu guards what follows: it is written by who reads, read when setting up fails.
	mu   sync.Mutex
	line []byte   // a line of stderr that has not ended
	tail []string // the last lines of stderr
}

// The kinds of frames.
const (
	frameStdout = 1
	frameStderr = 2
	frameDaemon = 3 // the daemon's own words about a failure
)

// Bounds of what is kept of stderr.
const (
	maxLine   = 16 << 10
	tailLines = 3
)

func (s *stream) Read(p []byte) (int, error) {
	for s.left == 0 {
		if err := s.nextFrame(); err != nil {
			return 0, err
		}
	}
	n, err := s.in.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// nextFrame reads a frame's head, and all of it unless it is stdout's.
func (s *stream) nextFrame() error {
	var head [8]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[4:]))
	switch head[0] {
	case frameStdout:
		s.left = size
		return nil
	case frameStderr, frameDaemon:
		_, err := io.CopyN(stderrWriter{s}, s.in, int64(size))
		return err
	}
	return fmt.Errorf("the container's stream has a frame of unknown kind %d", head[0])
}

func (s *stream) Write(p []byte) (int, error) { return s.conn.Write(p) }

// Close ends the container's stdin, on which the supervisor ends.
func (s *stream) Close() error { return s.conn.Close() }

// explain adds what the supervisor said last to an error of its setting up.
func (s *stream) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) > 0 {
		s.endLine()
	}
	if len(s.tail) == 0 {
		return err
	}
	return fmt.Errorf("%w; the container says: %s", err, strings.Join(s.tail, "; "))
}

// stderrWriter logs a line at a time.
type stderrWriter struct{ s *stream }

func (w stderrWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for _, c := range p {
		if c == '\n' || len(w.s.line) >= maxLine {
			w.s.endLine()
		}
		if c != '\n' {
			w.s.line = append(w.s.line, c)
		}
	}
	return len(p), nil
}

// endLine is called with mu held.
func (s *stream) endLine() {
	line := string(s.line)
	s.line = s.line[:0]
	if s.log != nil {
		s.log.Debug("supervisor", "line", line)
	}
	s.tail = append(s.tail[max(0, len(s.tail)-tailLines+1):], line)
}

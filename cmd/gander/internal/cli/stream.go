package cli

import (
	"io"
	"sync"
)

// A stream is stdin and stdout as one stream whose Close interrupts Read and
// Write. The files' own does not: a program that is told to end would otherwise
// wait for a client that neither writes nor reads.
//
// Two goroutines do the reading and writing proper. They end with the files, or
// with the process: nothing else can interrupt a system call on them.
type stream struct {
	in     *io.PipeReader
	writes chan []byte
	wrote  chan error
	closed chan struct{}
	once   sync.Once
	// mu makes Writes one at a time.
	mu sync.Mutex
}

func NewStream(in io.Reader, out io.Writer) *stream {
	r, w := io.Pipe()
	s := &stream{in: r, writes: make(chan []byte), wrote: make(chan error, 1), closed: make(chan struct{})}
	go func() {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err) // nil is the end of input
	}()
	go s.pump(out)
	return s
}

func (s *stream) pump(out io.Writer) {
	for {
		select {
		case b := <-s.writes:
			_, err := out.Write(b)
			s.wrote <- err
		case <-s.closed:
			return
		}
	}
}

func (s *stream) Read(b []byte) (int, error) { return s.in.Read(b) }

// Write writes all of b or fails. When Close interrupts it, b may still be read.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.writes <- b:
	case <-s.closed:
		return 0, io.ErrClosedPipe
	}
	select {
	case err := <-s.wrote:
		if err != nil {
			return 0, err
		}
		return len(b), nil
	case <-s.closed:
		return 0, io.ErrClosedPipe
	}
}

// Close interrupts Read and Write; they fail from now on.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.in.Close()
}

// EndNoticed calls end when reading from a stream has ended, however.
type EndNoticed struct {
	io.ReadWriteCloser
	End func()
}

func (e EndNoticed) Read(b []byte) (int, error) {
	n, err := e.ReadWriteCloser.Read(b)
	if err != nil {
		e.End()
	}
	return n, err
}

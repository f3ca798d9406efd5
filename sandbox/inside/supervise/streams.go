package supervise

import (
	"io"
	"os"
	"sync"

	"github.com/hashicorp/yamux"
)

// streams are the host's ends of a command's standard streams.
type streams interface {
	in() stdin
	out() io.Reader
	err() io.Reader
	// started is called when the command has been started.
	started()
	// close is called when nothing is left of the command. What it has written stays
	// readable.
	close()
}

// stdin is the host's end of a command's stdin. Close is end of file for the command.
type stdin interface {
	io.WriteCloser
	// refuse lets every Write fail from now on: nobody inside can read what is written.
	refuse()
}

// muxStreams are two streams on the connection to the supervisor, which copies.
type muxStreams struct {
	stdio, stderr *yamux.Stream
	stdin         muxStdin
}

func (h *Host) openStreams(process uint64) (streams, error) {
	stdio, err := h.stream(header{Stream: "stdio", Process: process})
	if err != nil {
		return nil, err
	}
	stderr, err := h.stream(header{Stream: "stderr", Process: process})
	if err != nil {
		_ = stdio.Close()
		return nil, err
	}
	return &muxStreams{stdio: stdio, stderr: stderr, stdin: muxStdin{stream: stdio}}, nil
}

func (s *muxStreams) in() stdin      { return &s.stdin }
func (s *muxStreams) out() io.Reader { return s.stdio }
func (s *muxStreams) err() io.Reader { return s.stderr }

// started closes what nothing is written to. Before the other side has accepted it,
// yamux would not acknowledge the stream and remember it for good.
func (s *muxStreams) started() { _ = s.stderr.Close() }

func (s *muxStreams) close() {
	_ = s.stdio.Close()
	_ = s.stderr.Close()
}

// muxStdin is the writing direction of a stdio stream.
type muxStdin struct {
	stream *yamux.Stream

	// mu guards refused.
	mu      sync.Mutex
	refused bool
}

func (s *muxStdin) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
}

func (s *muxStdin) Write(b []byte) (int, error) {
	s.mu.Lock()
	refused := s.refused
	s.mu.Unlock()
	if refused {
		return 0, io.ErrClosedPipe
	}
	return s.stream.Write(b)
}

// Close leaves the command's output open.
func (s *muxStdin) Close() error { return s.stream.Close() }

// fileSender is a connection that can hand files to the supervisor.
type fileSender interface {
	handOver(process uint64, files []*os.File) error
}

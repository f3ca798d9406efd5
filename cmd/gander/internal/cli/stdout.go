package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// stdout is the file that answers go to. It remembers the first write that failed: not
// every command looks, and an answer that a full disk has swallowed is a failure.
type stdout struct {
	*os.File

	// mu guards err.
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (s *stdout) Write(b []byte) (int, error) {
	n, err := s.File.Write(b)
	if err != nil && !errors.Is(err, syscall.EPIPE) { // who stops reading has what they wanted
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = err
		}
	}
	return n, err
}

// WriteString implements io.StringWriter.
func (s *stdout) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

// lost is how a command ended that returned err: what could not be written is an error,
// whether the command has noticed or not.
func (s *stdout) lost(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || err != nil && !errors.Is(err, s.err) {
		return err
	}
	return &ExitError{ExitFailed, fmt.Errorf("not all of the output could be written: %w", s.err)}
}

// fileOf is the file that a stream is, if it is one.
func fileOf(stream any) (*os.File, bool) {
	if s, ok := stream.(*stdout); ok {
		return s.File, true
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// readerGone reports whether a command has failed because nobody reads stdout any more,
// as behind "| head". There is nobody to be told then.
func readerGone(err error) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Path == os.Stdout.Name() && errors.Is(e, syscall.EPIPE)
}

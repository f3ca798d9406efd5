package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a file or a directory for reading; anything else (a pipe, a device)
// is [ErrNotRegular]. What was opened is what was decided on: it is held against
// the rules again, should it have been replaced in between.
func (s *Space) Open(name string) (*os.File, error) {
	for range attempts {
		at, err := s.find(name, reading)
		if err != nil {
			return nil, err
		}
		f, err := s.openReal(at)
		if !errors.Is(err, errMoved) {
			return f, err
		}
	}
	return nil, errUnsteady(s.Abs(name))
}

var errMoved = errors.New("moved meanwhile")

// openReal opens a path without links. It fails with errMoved when the path led
// elsewhere.
func (s *Space) openReal(at place) (*os.File, error) {
	real := at.real
	before, err := os.Lstat(real)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() && !before.IsDir() {
		return nil, fmt.Errorf("reading '%s': %w", real, ErrNotRegular) // to open a device may start something
	}
	f, err := at.openFile()
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !os.SameFile(before, info) || !isStill(f, real, info):
		err = errMoved
	case s.twins.hides(info):
		err = &RestrictedError{Path: real}
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// ReadFile reads a regular file of at most limit bytes; a larger one is a
// [TooLargeError], and anything but a file is [ErrNotRegular]. An editor's unsaved
// text is what is read where there is one.
func (s *Space) ReadFile(name string, limit int64) ([]byte, fs.FileInfo, error) {
	abs := s.Abs(name)
	if s.o.Buffers != nil {
		if err := s.Check(name); err != nil {
			return nil, nil, err
		}
		if data, info, ok, err := s.readBuffer(abs, limit); ok {
			return data, info, err
		}
	}
	f, err := s.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, info, fmt.Errorf("reading '%s': %w", abs, ErrNotRegular)
	}
	if info.Size() > limit {
		return nil, info, &TooLargeError{Path: abs, Size: info.Size(), Limit: limit}
	}
	data := make([]byte, 0, min(info.Size(), limit)+1)
	data, err = readAll(f, data, limit)
	if int64(len(data)) > limit { // it grew, or has a size that it does not tell
		return nil, info, &TooLargeError{Path: abs, Size: int64(len(data)), Limit: limit}
	}
	return data, info, err
}

// readAll reads at most one byte beyond the limit.
func readAll(r io.Reader, data []byte, limit int64) ([]byte, error) {
	for int64(len(data)) <= limit {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		room := min(int64(cap(data)-len(data)), limit+1-int64(len(data)))
		n, err := r.Read(data[len(data) : len(data)+int(room)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return data, err
		}
	}
	return data, nil
}

// Stat describes what the name leads to, links followed.
func (s *Space) Stat(name string) (fs.FileInfo, error) {
	at, err := s.find(name, reading)
	if err != nil {
		return nil, err
	}
	return os.Lstat(at.real)
}

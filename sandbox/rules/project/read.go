package project

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// ReadOwn reads a file of the person's: a regular one of at most so many bytes, which is in none of
// the directories that sandboxes can write, nor reached by a link there.
func ReadOwn(file string, writable []string, most int64) ([]byte, error) {
	real, err := Resolve(file, writable)
	if err != nil {
		return nil, err
	}
	for _, dir := range writable {
		if at, err := filepath.EvalSymlinks(dir); dir != "" && err == nil && Below(real, at) {
			return nil, fmt.Errorf("it is in %s, which a sandbox can write", dir)
		}
	}
	return ReadRegular(real, most)
}

// ReadRegular reads a file that is a regular one of at most so many bytes.
func ReadRegular(file string, most int64) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the person's own
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	return text, err
}

package editor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"gander.dev/gander/developer/files"
)

// An InvalidError says that the call asked for something that cannot be done, and
// what would do; other errors are failures of the machine or refusals.
type InvalidError struct{ Message string }

func (e *InvalidError) Error() string { return e.Message }

func invalid(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// literal is an error in goose's words, with the capitals and full stops that
// other programs match on.
type literal string

func (l literal) Error() string { return string(l) }

func literally(format string, args ...any) error { return literal(fmt.Sprintf(format, args...)) }

// A FileError is a failure of the file system. Its text is classic goose's.
type FileError struct {
	// Doing is "open", "read" or "write".
	Doing string
	Err   error
}

func (e *FileError) Error() string { return "Failed to " + e.Doing + " file: " + Reason(e.Err) }
func (e *FileError) Unwrap() error { return e.Err }

// failed makes a FileError, unless the error says by itself that a file is hidden
// or outside.
func failed(doing string, err error) error {
	if refused(err) {
		return err
	}
	return &FileError{doing, err}
}

// refused says that a rule forbids the file.
func refused(err error) bool {
	if _, ok := errors.AsType[*files.RestrictedError](err); ok {
		return true
	}
	_, ok := errors.AsType[*files.OutsideError](err)
	return ok
}

// Reason is the cause of a failure in goose's words, which are those of the
// operating system and its number for it: "No such file or directory (os error 2)".
func Reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		s := errno.Error()
		return strings.ToUpper(s[:1]) + s[1:] + fmt.Sprintf(" (os error %d)", int(errno))
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

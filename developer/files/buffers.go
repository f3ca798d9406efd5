package files

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"
	"unicode/utf8"
)

// Buffers are an editor's files with what is not saved yet, as an ACP client
// offers them (fs/read_text_file, fs/write_text_file). Paths are absolute and
// have passed the rules. Implementations bound their own waiting, and may be
// called concurrently.
type Buffers interface {
	// ReadTextFile returns the text as the person sees it. [ErrNoBuffer] means that
	// the disk is to be read.
	ReadTextFile(path string) (string, error)
	// WriteTextFile changes the text in the editor, which shows and saves it.
	// [ErrNoBuffer] means that the disk is to be written.
	WriteTextFile(path, text string) error
}

// ErrNoBuffer says that the editor does not serve a file.
var ErrNoBuffer = errors.New("the editor does not serve this file")

// readBuffer is ReadFile from the editor; ok is false when the disk has to do.
func (s *Space) readBuffer(abs string, limit int64) (data []byte, info fs.FileInfo, ok bool, err error) {
	if s.o.Buffers == nil {
		return nil, nil, false, nil
	}
	text, err := s.o.Buffers.ReadTextFile(abs)
	if errors.Is(err, ErrNoBuffer) {
		return nil, nil, false, nil
	}
	if err != nil {
		return nil, nil, true, err
	}
	info = bufferInfo{name: filepath.Base(abs), size: int64(len(text))}
	if info.Size() > limit {
		return nil, info, true, &TooLargeError{Path: abs, Size: info.Size(), Limit: limit}
	}
	return []byte(text), info, true, nil
}

// writeBuffer is WriteFile to the editor, for what is text.
func (s *Space) writeBuffer(abs string, data []byte) (ok bool, err error) {
	if s.o.Buffers == nil || !utf8.Valid(data) {
		return false, nil
	}
	err = s.o.Buffers.WriteTextFile(abs, string(data))
	if errors.Is(err, ErrNoBuffer) {
		return false, nil
	}
	return true, err
}

// bufferInfo describes a file that the editor has, be it on the disk or not.
type bufferInfo struct {
	name string
	size int64
}

func (b bufferInfo) Name() string     { return b.name }
func (b bufferInfo) Size() int64      { return b.size }
func (bufferInfo) Mode() fs.FileMode  { return 0o644 }
func (bufferInfo) ModTime() time.Time { return time.Time{} }
func (bufferInfo) IsDir() bool        { return false }
func (bufferInfo) Sys() any           { return nil }

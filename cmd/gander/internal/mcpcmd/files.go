package mcpcmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/developer/files"
	"gander.dev/gander/sandbox"
)

const (
	// filesTime bounds an answer of gander outside of the sandbox.
	filesTime = 30 * time.Second
	// maxFilesAnswer bounds an answer, in bytes.
	maxFilesAnswer = 64 << 20
)

// filesSide asks gander outside of the sandbox for what the person's editor has
// open. It implements files.Buffers.
type filesSide struct {
	// mu is held for a question and its answer.
	mu    sync.Mutex
	conn  net.Conn // nil once it has failed: the disk has to do then
	lines *bufio.Scanner
}

// openFilesSide connects to the door that the sandbox names; it is nil when it names none.
func openFilesSide(ctx context.Context, a *cli.App) (*filesSide, error) {
	addr := cli.Variable(a.Environ, sandbox.FilesVariable)
	if addr == "" {
		return nil, nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s, which %s names: %w; unset the variable outside of gander's sandboxes", addr, sandbox.FilesVariable, err)
	}
	s := &filesSide{conn: conn, lines: bufio.NewScanner(conn)}
	s.lines.Buffer(nil, maxFilesAnswer)
	return s, nil
}

// buffers is for developer.Options; nil without a door.
func (s *filesSide) buffers() files.Buffers {
	if s == nil {
		return nil
	}
	return s
}

// ReadTextFile implements files.Buffers.
func (s *filesSide) ReadTextFile(path string) (string, error) {
	a, err := s.ask(sandbox.FileRequest{Path: path})
	return a.Text, err
}

// WriteTextFile implements files.Buffers.
func (s *filesSide) WriteTextFile(path, text string) error {
	_, err := s.ask(sandbox.FileRequest{Path: path, Write: true, Text: text})
	return err
}

func (s *filesSide) ask(req sandbox.FileRequest) (a sandbox.FileAnswer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return a, files.ErrNoBuffer
	}
	a, err = s.exchange(req)
	switch {
	case err != nil:
		_ = s.conn.Close()
		s.conn = nil
		return a, fmt.Errorf("asking the editor for %s: %w; the next attempt uses the disk", req.Path, err)
	case a.NoBuffer:
		return a, files.ErrNoBuffer
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (s *filesSide) exchange(req sandbox.FileRequest) (a sandbox.FileAnswer, err error) {
	if err := s.conn.SetDeadline(time.Now().Add(filesTime)); err != nil {
		return a, err
	}
	questions := json.NewEncoder(s.conn)
	questions.SetEscapeHTML(false) // each <, > and & would be six bytes, and a longer line is refused
	if err := questions.Encode(req); err != nil {
		return a, err
	}
	if !s.lines.Scan() {
		if err := s.lines.Err(); err != nil {
			return a, err
		}
		return a, net.ErrClosed
	}
	return a, json.Unmarshal(s.lines.Bytes(), &a)
}

func (s *filesSide) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
	}
}

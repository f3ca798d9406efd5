package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// dirPrefix begins the names of the directories of Runners.
const dirPrefix = "gander-shell-"

// lockName is a file in each that its Runner holds while it lives.
const lockName = "lock"

// maxFiles bounds how many files a session has; the oldest give way. As many notes
// say of older ones that they did.
const maxFiles = 500

// spool is the directory of a Runner and how much of it each session uses.
type spool struct {
	parent string
	limit  int64

	// mu guards the fields below, and the sizes of files.
	mu       sync.Mutex
	dir      string // empty until the first file
	lock     *os.File
	closed   bool
	made     int
	sessions map[string]*sessionFiles
}

// sessionFiles are the files of a session, the oldest first.
type sessionFiles struct {
	files []*spoolFile
	used  int64
	notes []string // paths of files that gave way
}

func newSpool(parent string, limit int64) *spool {
	if parent == "" {
		parent = os.TempDir()
	}
	return &spool{parent: parent, limit: limit, sessions: map[string]*sessionFiles{}}
}

// open makes the directory and clears away those whose Runners have died.
func (s *spool) open() error {
	if s.closed {
		return ErrClosed
	}
	if s.dir != "" {
		return nil
	}
	s.sweep()
	dir, err := os.MkdirTemp(s.parent, dirPrefix)
	if err != nil {
		return fmt.Errorf("making a directory for output: %w", err)
	}
	lock, err := holdLock(filepath.Join(dir, lockName))
	if err != nil {
		_ = os.RemoveAll(dir)
		return fmt.Errorf("locking the directory for output: %w", err)
	}
	s.dir, s.lock = dir, lock
	return nil
}

// sweep removes directories like ours that nobody holds.
func (s *spool) sweep() {
	entries, err := os.ReadDir(s.parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		dir := filepath.Join(s.parent, e.Name())
		if strings.HasPrefix(e.Name(), dirPrefix) && e.IsDir() && owned(dir) && abandoned(filepath.Join(dir, lockName)) {
			_ = os.RemoveAll(dir)
		}
	}
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.dir == "" {
		return nil
	}
	for _, of := range s.sessions {
		for _, f := range of.files {
			f.closeFiles()
		}
	}
	err := s.lock.Close()
	if rerr := os.RemoveAll(s.dir); rerr != nil {
		return errors.Join(err, fmt.Errorf("removing the output of commands: %w", rerr))
	}
	s.dir = ""
	return err
}

// file prepares a file of a session; nothing is made yet.
func (s *spool) file(session string) *spoolFile { return &spoolFile{spool: s, session: session} }

// spoolFile is a text on disk. When the session's space is used up its beginning
// stays, and of what follows the newest: that goes to two pieces in turn, which
// close appends. Only one goroutine writes.
type spoolFile struct {
	spool   *spool
	session string

	// The fields below are guarded by spool.mu.
	path   string
	head   *os.File
	size   int64 // what the session is charged with
	pieces [2]piece
	turn   int
	// pieceSize is how large a piece may be; 0 while there is no need for them.
	pieceSize int64
	missing   int64 // of what did not fit
	gone      bool  // it gave way to newer ones
	fault     error
}

// piece is the newer part of a text that does not fit.
type piece struct {
	file *os.File
	size int64
}

// pieceShare is the part of a session's limit that each of the two pieces takes.
const pieceShare = 16

// share is the size of a piece.
func (s *spool) share() int { return int(max(s.limit/pieceShare, 1)) }

func (f *spoolFile) create() error {
	s := f.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	s.made++
	path := filepath.Join(s.dir, fmt.Sprintf("output-%d.txt", s.made))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("making a file for output: %w", err)
	}
	f.path, f.head = path, file
	of := s.sessions[f.session]
	if of == nil {
		of = &sessionFiles{}
		s.sessions[f.session] = of
	}
	of.files = append(of.files, f)
	for len(of.files) > maxFiles && s.giveWay(of, f) {
	}
	return nil
}

// write appends. An error of the disk ends the file, not the command; status tells.
func (f *spoolFile) write(b []byte) {
	for part := range slices.Chunk(b, f.spool.share()) { // so that it fits in a piece
		f.writePart(part)
	}
}

func (f *spoolFile) writePart(b []byte) {
	f.spool.mu.Lock()
	to := f.reserve(int64(len(b)))
	f.spool.mu.Unlock()
	if to == nil {
		return
	}
	if _, err := to.Write(b); err != nil {
		f.spool.mu.Lock()
		f.fault = fmt.Errorf("writing output to a file: %w", err)
		f.spool.mu.Unlock()
	}
}

// reserve finds the place for n more bytes; nil when there is none any more.
func (f *spoolFile) reserve(n int64) *os.File {
	if f.fault != nil || f.gone || f.head == nil {
		f.missing += n
		return nil
	}
	if f.pieceSize > 0 {
		return f.inPiece(n)
	}
	s := f.spool
	of := s.sessions[f.session]
	share := s.share()
	for of.used+n > s.limit-2*int64(share) {
		if !s.giveWay(of, f) {
			f.pieceSize = int64(share)
			return f.inPiece(n)
		}
	}
	of.used += n
	f.size += n
	return f.head
}

// inPiece takes turns between the pieces: the older one is dropped when the newer
// is full.
func (f *spoolFile) inPiece(n int64) *os.File {
	p := &f.pieces[f.turn]
	if p.file != nil && p.size+n > f.pieceSize {
		f.turn = 1 - f.turn
		p = &f.pieces[f.turn]
		f.missing += p.size
		p.size = 0
		if p.file != nil {
			f.fault = p.file.Truncate(0)
		}
	}
	if p.file == nil {
		p.file, f.fault = os.OpenFile(fmt.Sprintf("%s.%d", f.path, f.turn), os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	}
	if f.fault != nil {
		return nil
	}
	p.size += n
	return p.file
}

// giveWay empties the oldest file of a session that is complete; false when there
// is none besides keep.
func (s *spool) giveWay(of *sessionFiles, keep *spoolFile) bool {
	i := slices.IndexFunc(of.files, func(f *spoolFile) bool { return f != keep && f.head == nil })
	if i < 0 {
		return false
	}
	old := of.files[i]
	note := fmt.Sprintf("[this output, %d bytes, was removed to make room for newer ones]\n", old.size)
	_ = os.WriteFile(old.path, []byte(note), 0o600)
	of.notes = append(of.notes, old.path)
	if len(of.notes) > maxFiles {
		_ = os.Remove(of.notes[0])
		of.notes = slices.Delete(of.notes, 0, 1)
	}
	of.used -= old.size
	old.gone = true
	of.files = slices.Delete(of.files, i, i+1)
	return true
}

// status says where the text is, how many bytes of it are missing, and what went wrong.
// While the text is being written what did not fit in the beginning counts as missing.
func (f *spoolFile) status() (path string, missing int64, fault error) {
	f.spool.mu.Lock()
	defer f.spool.mu.Unlock()
	if f.head != nil {
		return f.path, f.missing + f.pieces[0].size + f.pieces[1].size, f.fault
	}
	return f.path, f.missing, f.fault
}

// close completes the file: a mark of what is missing, and the newest.
func (f *spoolFile) close() {
	f.spool.mu.Lock()
	defer f.spool.mu.Unlock()
	if f.head == nil {
		return
	}
	if f.pieceSize > 0 && f.fault == nil {
		f.fault = f.join()
	}
	f.closeFiles()
}

func (f *spoolFile) join() error {
	if f.missing > 0 {
		if _, err := fmt.Fprintf(f.head, "\n[%d bytes are missing here: output was larger than what is kept]\n", f.missing); err != nil {
			return err
		}
	}
	for _, i := range []int{1 - f.turn, f.turn} {
		p := f.pieces[i]
		if p.file == nil {
			continue
		}
		if _, err := p.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		n, err := io.Copy(f.head, p.file)
		f.size += n
		f.spool.sessions[f.session].used += n
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *spoolFile) closeFiles() {
	for i := range f.pieces {
		if p := &f.pieces[i]; p.file != nil {
			_ = p.file.Close()
			_ = os.Remove(p.file.Name())
			p.file = nil
		}
	}
	if f.head != nil {
		_ = f.head.Close()
		f.head = nil
	}
}

package sessions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"gander.dev/gander/acp"
)

// ErrInUse means that another process, or another place in this one, has the
// session open.
var ErrInUse = errors.New("the session is open elsewhere")

// Claim makes the caller the only one that runs the session, in all processes
// that share the directory, until release is called or the process ends. It does
// not wait: a session that somebody has is ErrInUse, with the process id in the
// text where it is known. Readers, and Append, need no claim.
func (s *Store) Claim(id acp.SessionID) (release func(), err error) {
	if err := CheckID(id); err != nil {
		return nil, fmt.Errorf("claiming a session: %w", ErrNotFound)
	}
	l, err := s.tryLock(string(id))
	if err != nil {
		return nil, fmt.Errorf("claiming session %s: %w", id, err)
	}
	return l.release, nil
}

// A nameLock is a file that one process at a time has locked. The kernel takes
// the lock from a process that ends, however it ends.
type nameLock struct{ flock *flock.Flock }

func (s *Store) lockPath(name string) string { return filepath.Join(s.dir, ".locks", name) }

// tryLock takes the lock of a name, or fails with ErrInUse.
func (s *Store) tryLock(name string) (*nameLock, error) {
	return s.takeLock(name, (*flock.Flock).TryLock)
}

// waitLock waits for the lock of a name.
func (s *Store) waitLock(name string) (*nameLock, error) {
	return s.takeLock(name, func(f *flock.Flock) (bool, error) { return true, f.Lock() })
}

func (s *Store) takeLock(name string, take func(*flock.Flock) (bool, error)) (*nameLock, error) {
	path := s.lockPath(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	for {
		l := flock.New(path, flock.SetPermissions(0o600))
		got, err := take(l)
		if err != nil {
			return nil, err
		}
		if !got {
			return nil, holder(path)
		}
		// Whoever had it may have removed the file that was locked here.
		locked, err1 := l.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(locked, there) {
			_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600) // for the words of holder
			return &nameLock{l}, nil
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		if err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
			return nil, err2
		}
	}
}

// holder is ErrInUse in words.
func holder(path string) error {
	pid, err := os.ReadFile(path)
	if err != nil || len(pid) == 0 {
		return ErrInUse
	}
	return fmt.Errorf("%w (process %s); close it there first", ErrInUse, strings.TrimSpace(string(pid)))
}

func (l *nameLock) release() {
	_ = os.Remove(l.flock.Path()) // Windows does not remove what is open: then it stays, unlocked
	_ = l.flock.Close()
}

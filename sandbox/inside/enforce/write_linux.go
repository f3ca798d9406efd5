package enforce

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A Writer is a Policy with entries that programs write through the Guard alone. A program makes a
// lock beside such an entry and renames it to that, as git does with its configuration. The Guard
// reads the lock once, asks the policy, and writes what that returns to a new file, which nothing
// inside ever has open.
type Writer interface {
	Policy
	// Locks returns the entry that a lock at a path is for; empty when it is no lock.
	Locks(rel string) (target string)
	// Accept returns the content that an entry gets, of what it has now, nil for no such file, and
	// what a program wants it to have. An error says why it gets none.
	Accept(target string, now, next []byte) ([]byte, error)
	// MayBegin says whether a new file, or an empty directory, may be made at a path although
	// Access denies it. fresh says that the directory that it would be in was made inside.
	MayBegin(rel string, dir, fresh bool) bool
	// MayRemove says whether an entry of a directory that was made inside may be removed although
	// Access denies it.
	MayRemove(rel string) bool
	// Points says whether an entry is a file with a path in it that programs write although
	// Access denies it: the Guard writes what they want, if AcceptPointer does not fail.
	Points(rel string) bool
	// AcceptPointer says why such an entry may not get a content. now is what it has, nil for no
	// such file. fresh says that the directory that it is in was made inside.
	AcceptPointer(rel string, now, next []byte, fresh bool) error
}

// Bounds of what is known of files and directories that were made inside.
const (
	maxLocks   = 64
	maxMade    = 1 << 17
	maxWritten = 1 << 20 // bytes of an entry
)

// ownMade are the locks and directories that were made inside.
type ownMade struct {
	mu    sync.Mutex
	locks map[inode]int // O_PATH descriptors, so that no other file gets the number
	// dirs holds when they were made: one that is made outside later may get the number.
	dirs map[inode]unix.StatxTimestamp
}

func newOwnMade() *ownMade {
	return &ownMade{locks: map[inode]int{}, dirs: map[inode]unix.StatxTimestamp{}}
}

func (m *ownMade) isLock(i inode) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.locks[i]
	return ok
}

// isFresh reports whether a directory was made inside. Where a file system does not say when, none was.
func (m *ownMade) isFresh(dir *object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	born, ok := m.dirs[dir.inode()]
	return ok && dir.stat.Mask&unix.STATX_BTIME != 0 && born == dir.stat.Btime
}

// addLock takes in a lock that was just made.
func (m *ownMade) addLock(fd int) {
	var o object
	held, err := unix.Open("/proc/self/fd/"+decimal(fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.locks) >= maxLocks || unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &o.stat) != nil || m.locks[o.inode()] != 0 {
		_ = unix.Close(held)
		return
	}
	m.locks[o.inode()] = held
}

func (m *ownMade) dropLock(i inode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fd, ok := m.locks[i]; ok {
		_ = unix.Close(fd)
		delete(m.locks, i)
	}
}

// setFresh notes that a directory was made inside, or was removed.
func (m *ownMade) setFresh(dir *object, made bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !made:
		delete(m.dirs, dir.inode())
	case len(m.dirs) < maxMade:
		m.dirs[dir.inode()] = dir.stat.Btime
	}
}

func (m *ownMade) close() {
	for _, fd := range m.locks {
		_ = unix.Close(fd)
	}
}

// object identifies the file at an entry now.
func (e *entry) object() (o object, ok bool) {
	err := unix.Statx(e.parent, e.bare(), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &o.stat)
	return o, err == nil
}

// isFresh reports whether an object is a file that may be removed as its directory was made inside:
// it may have any mode then, which git init tries.
func (g *Guard) isFresh(o *object) bool {
	if o.kind() != unix.S_IFREG {
		return false
	}
	for _, tree := range o.trees {
		w, ok := tree.policy().(Writer)
		rel, is := tree.really(g, o.stat.Mnt_id, o.path)
		if !ok || !is || !w.MayRemove(rel) {
			continue
		}
		var dir object
		err := unix.Statx(unix.AT_FDCWD, filepath.Dir(o.path), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &dir.stat)
		return err == nil && g.made.isFresh(&dir)
	}
	return false
}

// writers calls f with each tree that an entry is in and whose policy is a Writer.
func (g *Guard) writers(at *entry, f func(w Writer, rel string)) {
	for _, tree := range g.trees {
		if w, ok := tree.policy().(Writer); ok {
			if rel, ok := at.in(g, tree); ok {
				f(w, rel)
			}
		}
	}
}

// isLock reports whether an entry is a lock of what the Guard writes.
func (g *Guard) isLock(at *entry) (is bool) {
	g.writers(at, func(w Writer, rel string) { is = is || w.Locks(rel) != "" })
	return is
}

// mayAnyway reports whether the entry may be made, or removed, although its access is denied.
func (t *tree) mayAnyway(g *Guard, at *entry, dir bool) bool {
	w, ok := t.policy().(Writer)
	rel, is := at.in(g, t)
	if !ok || !is {
		return false
	}
	switch {
	case at.goes:
		o, there := at.object()
		return there && (g.made.isLock(o.inode()) && w.Locks(rel) != "" || g.made.isFresh(&at.dir) && w.MayRemove(rel))
	case at.begins:
		return !dir && w.Locks(rel) != "" || w.MayBegin(rel, dir, g.made.isFresh(&at.dir))
	}
	return false
}

// replace carries out a rename by which a program that holds a lock replaces what the Guard
// writes. handled is false when the rename is none.
func (t *task) replace(from, to *entry, flags uint) (a answer, handled bool) {
	if from.dots() || to.dots() || from.dir.inode() != to.dir.inode() {
		return a, false
	}
	var w Writer
	target := ""
	t.g.writers(from, func(its Writer, rel string) {
		if locks := its.Locks(rel); locks != "" {
			w, target = its, locks
		}
	})
	if w == nil {
		return a, false
	}
	is := false
	t.g.writers(to, func(its Writer, rel string) { is = is || rel == target })
	lock, there := from.object()
	if !is || !there || flags&^unix.RENAME_NOREPLACE != 0 || !t.g.made.isLock(lock.inode()) || !t.g.mayChange(&to.dir) {
		return a, false
	}
	if !t.waits() {
		return done(unix.EINTR), true
	}
	next, _, err := readEntry(from, &lock)
	if err != nil {
		return done(t.denied(from.path())), true
	}
	now, mode, err := readEntry(to, nil)
	switch {
	case errors.Is(err, unix.ENOENT):
		now, mode = nil, uint32(lock.stat.Mode)&0o666
	case err != nil:
		return done(t.denied(to.path())), true
	case flags != 0:
		return done(unix.EEXIST), true
	}
	written, err := w.Accept(target, now, next)
	if err != nil {
		t.g.o.Denied(Denial{Operation: t.g.names[t.n.nr], Path: to.path(), PID: t.tid, Reason: err.Error()})
		return done(unix.EACCES), true
	}
	if err := writeEntry(to, written, mode); err != nil {
		return done(number(err)), true
	}
	_ = unix.Unlinkat(from.parent, from.bare(), 0)
	t.g.made.dropLock(lock.inode())
	return done(0), true
}

// readEntry reads a regular file that may be somebody else's, and is the one that it was.
func readEntry(at *entry, was *object) (text []byte, mode uint32, err error) {
	fd, err := unix.Openat(at.parent, at.bare(), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fd), at.bare())
	defer func() { _ = f.Close() }()
	var o object
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &o.stat); err != nil {
		return nil, 0, err
	}
	if o.kind() != unix.S_IFREG || was != nil && o.inode() != was.inode() {
		return nil, 0, unix.EINVAL
	}
	text, err = io.ReadAll(io.LimitReader(f, maxWritten+1))
	if err == nil && len(text) > maxWritten {
		err = unix.EFBIG
	}
	return append([]byte{}, text...), uint32(o.stat.Mode) & 0o7777, err
}

// WrittenPrefix begins the names of the files that the Guard writes before they get theirs.
// Policies protect them.
const WrittenPrefix = ".gander-new-"

// writeEntry puts a new file in the place of an entry.
func writeEntry(at *entry, text []byte, mode uint32) error {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	name := WrittenPrefix + hex.EncodeToString(random[:])
	fd, err := unix.Openat(at.parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(text)
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = unix.Renameat(at.parent, name, at.parent, at.bare())
	}
	if err != nil {
		_ = unix.Unlinkat(at.parent, name, 0)
		var e unix.Errno
		if errors.As(err, &e) {
			return e
		}
	}
	return err
}

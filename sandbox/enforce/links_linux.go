package enforce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// linkIndex knows the inodes of a tree's restricted files, so that they are
// recognised under the names of other hard links. It is made when the first file
// with several links is opened, and kept current by inotify: the kernel queues an
// event before the call that caused it returns, and the queue is read before each
// look, so that the index is never behind. It is safe for concurrent use.
type linkIndex struct {
	tree *tree

	// mu guards the fields below.
	mu     sync.Mutex
	fd     int // inotify; -1 before the first look
	dirs   map[int32]string
	inodes map[inode]Access
	policy Policy // by which it was made
	stale  bool   // events were lost, or something could not be watched
	queue  [4 << 10]byte
}

func newLinkIndex(t *tree) *linkIndex { return &linkIndex{tree: t, fd: -1} }

// access is what is left of a file, whatever the name that it was opened by.
func (x *linkIndex) access(i inode) Access {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fd < 0 || x.stale || x.policy != x.tree.policy() {
		x.rebuild()
	} else {
		x.drain()
	}
	return x.inodes[i]
}

func (x *linkIndex) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fd >= 0 {
		_ = unix.Close(x.fd)
		x.fd = -1
	}
}

func (x *linkIndex) rebuild() {
	if x.fd >= 0 {
		_ = unix.Close(x.fd)
	}
	x.dirs, x.inodes, x.stale, x.policy = map[int32]string{}, map[inode]Access{}, false, x.tree.policy()
	var err error
	if x.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		x.fd, x.stale = -1, true
	}
	x.add("")
}

// add watches a directory before it reads it, so that nothing falls between.
func (x *linkIndex) add(rel string) {
	const events = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK | unix.IN_DONT_FOLLOW
	path := filepath.Join(x.tree.path, rel)
	wd, err := unix.InotifyAddWatch(x.fd, path, events)
	if err != nil {
		x.stale = x.stale || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
	} else {
		x.dirs[int32(wd)] = rel
	}
	entries, _ := os.ReadDir(path) // what cannot be read cannot be opened either
	for _, e := range entries {
		x.see(filepath.Join(rel, e.Name()), e.IsDir())
	}
}

func (x *linkIndex) see(rel string, dir bool) {
	if dir {
		x.add(rel)
		return
	}
	access := x.policy.Access(rel, false)
	if access == Full {
		return
	}
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(x.tree.path, rel), &st) == nil {
		i := inode{st.Dev, st.Ino}
		x.inodes[i] = max(x.inodes[i], access)
	}
}

// drain takes in what happened since the last look.
func (x *linkIndex) drain() {
	for {
		n, err := unix.Read(x.fd, x.queue[:])
		if n <= 0 || err != nil {
			break
		}
		x.events(x.queue[:n])
	}
	if x.stale {
		x.rebuild()
	}
}

func (x *linkIndex) events(raw []byte) {
	for len(raw) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(raw[0:]))
		mask := binary.NativeEndian.Uint32(raw[4:])
		size := binary.NativeEndian.Uint32(raw[12:])
		name := raw[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+size]
		raw = raw[unix.SizeofInotifyEvent+size:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			x.stale = true
		}
		rel, known := x.dirs[wd]
		name, _, _ = bytes.Cut(name, []byte{0})
		if known && len(name) > 0 {
			x.see(filepath.Join(rel, string(name)), mask&unix.IN_ISDIR != 0)
		}
	}
}

package enforce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// relist is how long it takes until it is tried again to list what could not be.
	relist = time.Second
	// relistForeign is the same for directories of other users.
	relistForeign = 30 * time.Second
	// relists is how often a tree is listed anew, in which names move meanwhile.
	relists = 3
	// maxIndexed bounds the path of a directory that is listed. Programs inside can make
	// it longer than any path that may be opened.
	maxIndexed = 4 * maxPath
)

// linkIndex knows the inodes of a tree's restricted files, so that they are
// recognised under the names of other hard links. It is made when the first file
// with several links is opened, and kept current by inotify: the kernel queues an
// event before the call that caused it returns, and the queue is read before each
// look, so that the index is never behind. While something cannot be listed, any
// file with several links may be a restricted one. It is safe for concurrent use.
type linkIndex struct {
	tree    *tree
	log     *slog.Logger
	renames *renames
	caller  uint32 // the user that asks

	// mu guards the fields below.
	mu        sync.Mutex
	fd        int // inotify; -1 before the first look
	top       int // O_PATH, the tree; -1 before the first look
	dirs      map[int32]*place
	inodes    map[inode]Access
	devices   map[uint64]struct{} // of the directories
	policy    Policy              // by which it was made
	lost      bool                // events were
	unwatched bool                // something could not be watched
	partial   bool                // something could not be listed, and inodes may lack some
	foreign   bool                // the same of directories of other users, closed to the caller
	listed    time.Time
	shut      []string // directories that could not be opened, for want of rights
	told      string   // last
	events    []byte   // that have not been looked at
	queue     [4 << 10]byte
}

func newLinkIndex(t *tree, g *Guard) *linkIndex {
	x := &linkIndex{tree: t, log: g.o.Log, renames: &g.renames, caller: uint32(unix.Geteuid()), fd: -1, top: -1}
	if id := g.o.Identity; id != nil {
		x.caller = uint32(id.UID)
	}
	return x
}

// access is what is left of a file with several links, whatever the name that it was
// opened by, and of this owner.
func (x *linkIndex) access(i inode, owner uint32) Access {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.isCurrent() {
		asProcess(x.update)
	}
	x.judgeShut()
	if _, near := x.devices[i.dev]; near && (x.partial || x.foreign && owner != x.caller) {
		return None
	}
	return x.inodes[i]
}

// asProcess has work done with the rights of the process, by which it lists what its
// owner keeps others from listing: threads that answer calls have those of the callers.
func asProcess(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	<-done
}

func (x *linkIndex) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget()
}

func (x *linkIndex) forget() {
	for _, fd := range []*int{&x.fd, &x.top} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// isStale reports whether the index has to be made anew.
func (x *linkIndex) isStale() bool {
	return x.policy != x.tree.policy() || x.lost || x.unwatched || x.partial || x.foreign && time.Since(x.listed) >= relistForeign
}

// isCurrent reports whether nothing has happened since the last look.
func (x *linkIndex) isCurrent() bool {
	if x.partial && x.policy == x.tree.policy() {
		return time.Since(x.listed) < relist
	}
	x.receive()
	return len(x.events) == 0 && !x.isStale()
}

func (x *linkIndex) update() {
	if !x.isStale() {
		x.drain()
	}
	for n := 1; x.isStale(); n++ {
		before := x.renames.mark()
		x.list()
		x.drain()
		// Where nothing tells of it, a directory may have moved past.
		missed := x.lost || x.unwatched && x.renames.since(before)
		if x.partial || !missed {
			return
		}
		if n == relists {
			x.partial, x.listed = true, time.Time{}
			return
		}
	}
}

// list begins anew. What was known stays when not everything can be listed now.
func (x *linkIndex) list() {
	x.forget()
	policy := x.tree.policy()
	known, same := x.inodes, x.policy == policy
	x.dirs, x.inodes, x.devices, x.events = map[int32]*place{}, map[inode]Access{}, map[uint64]struct{}{}, nil
	x.lost, x.unwatched, x.partial, x.foreign, x.shut, x.policy, x.listed = false, false, false, false, nil, policy, time.Now()
	var st unix.Stat_t
	if unix.Fstat(x.tree.fd, &st) == nil {
		x.devices[st.Dev] = struct{}{}
	}
	var err error
	if x.fd, err = watches(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		x.fd, x.unwatched = -1, true
	}
	if x.top, err = unix.Open(x.tree.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		x.top = -1
		x.fail("", err)
	} else {
		x.add(nil)
	}
	if (x.partial || len(x.shut) > 0) && same {
		for i, access := range known {
			x.inodes[i] = max(x.inodes[i], access)
		}
	}
}

// fail says that something could not be looked at. What is not there any more has
// another name, of which an event tells, or none.
func (x *linkIndex) fail(rel string, err error) {
	if gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP); gone && rel != "" {
		return
	}
	if errors.Is(err, unix.EACCES) && rel != "" && len(x.shut) < maxShut {
		x.shut = append(x.shut, rel)
		return
	}
	x.partial = true
	x.tell("files with several hard links are closed", rel, err)
}

// maxShut bounds the directories that are judged one by one.
const maxShut = 1000

func (x *linkIndex) tell(what, rel string, err error) {
	if x.told != what {
		x.told = what
		x.log.Warn(what+", as not every directory can be looked at for closed ones", "directory", path.Join(x.tree.path, rel), "err", err)
	}
}

// judgeShut tells directories of other users, which the caller cannot enter either, from
// those that it can, or could. It is for the caller's thread.
func (x *linkIndex) judgeShut() {
	for _, rel := range x.shut {
		if x.isForeign(rel) {
			x.foreign = true
			x.tell("files of other users with several hard links are closed", rel, unix.EACCES)
		} else {
			x.partial = true
			x.tell("files with several hard links are closed", rel, unix.EACCES)
		}
	}
	x.shut = nil
}

// isForeign reports whether a directory is another user's and the caller cannot enter it:
// what is in it is closed to the caller by all its names there.
func (x *linkIndex) isForeign(rel string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(x.top, rel, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EACCES) {
		return true // nor one above it
	}
	return err == nil && st.Uid != x.caller && errors.Is(unix.Faccessat(x.top, rel, unix.X_OK, unix.AT_EACCESS), unix.EACCES)
}

// place is a directory of a tree, by its name and what it is in; nil is the tree. There may
// be as many as programs inside like, and paths are long.
type place struct {
	in   *place
	name string
}

// rel is its path in the tree.
func (p *place) rel() string {
	var names []string
	for ; p != nil; p = p.in {
		names = append(names, p.name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// add takes in a directory and all below it.
func (x *linkIndex) add(p *place) {
	for todo := []*place{p}; len(todo) > 0; {
		p, todo = todo[len(todo)-1], todo[:len(todo)-1]
		below, err := x.visit(p)
		if err != nil {
			x.fail(p.rel(), err)
		}
		todo = append(todo, below...)
		x.receive() // before there are more than the kernel keeps
	}
}

// visit takes in one directory, and returns those in it. It is watched before it is read,
// so that nothing falls between.
func (x *linkIndex) visit(p *place) (below []*place, err error) {
	const events = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	rel := p.rel()
	dir, err := x.open(rel)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	fd := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	x.devices[st.Dev] = struct{}{}
	if wd, err := unix.InotifyAddWatch(x.fd, dir.Name(), events); err != nil {
		x.unwatched = true
	} else {
		x.dirs[int32(wd)] = p
	}
	err = eachEntry(dir, func(e fs.DirEntry) error {
		if e.IsDir() {
			below = append(below, &place{p, e.Name()})
			return nil
		}
		name := join(rel, e.Name())
		if access := x.judge(name); access != Full {
			x.see(fd, e.Name(), name, access)
		}
		return nil
	})
	return below, err
}

// eachEntry calls do for what is in a directory, of which it has a part in memory at a time,
// until that fails.
func eachEntry(dir *os.File, do func(fs.DirEntry) error) error {
	const some = 1000
	for {
		entries, err := dir.ReadDir(some)
		for _, e := range entries {
			if err := do(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// open opens a directory of the tree, whose path may be longer than the kernel takes at
// a time. Its name is a path that leads to it.
func (x *linkIndex) open(rel string) (*os.File, error) {
	if len(rel) > maxIndexed {
		return nil, unix.ENAMETOOLONG
	}
	how := unix.OpenHow{Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	at, rest := x.top, orHere(rel)
	for {
		piece := rest
		if how.Flags = unix.O_RDONLY; len(piece) >= maxPath {
			piece, how.Flags = rest[:strings.LastIndexByte(rest[:maxPath], '/')], unix.O_PATH
		}
		how.Flags |= unix.O_DIRECTORY | unix.O_CLOEXEC
		next, err := unix.Openat2(at, piece, &how)
		if at != x.top {
			_ = unix.Close(at)
		}
		switch {
		case err != nil:
			return nil, err
		case len(piece) == len(rest):
			return os.NewFile(uintptr(next), "/proc/self/fd/"+decimal(next)), nil
		}
		at, rest = next, rest[len(piece)+1:]
	}
}

func join(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

// judge is what the policy leaves of a file. Of one that no path leads to, nobody opens
// more by another name.
func (x *linkIndex) judge(rel string) Access {
	if len(x.tree.path)+len(rel)+1 >= maxPath {
		return None
	}
	return x.policy.Access(rel, false)
}

// see takes in a restricted file.
func (x *linkIndex) see(dir int, name, rel string, access Access) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		x.fail(rel, err)
		return
	}
	i := inode{st.Dev, st.Ino}
	x.inodes[i] = max(x.inodes[i], access)
}

// receive takes what happened from the kernel.
func (x *linkIndex) receive() {
	for x.fd >= 0 {
		n, err := unix.Read(x.fd, x.queue[:])
		if n <= 0 || err != nil {
			return
		}
		x.events = append(x.events, x.queue[:n]...)
	}
}

// drain takes in what happened since the last look.
func (x *linkIndex) drain() {
	for x.receive(); len(x.events) >= unix.SizeofInotifyEvent; x.receive() {
		raw := x.events
		wd := int32(binary.NativeEndian.Uint32(raw[0:]))
		mask := binary.NativeEndian.Uint32(raw[4:])
		size := binary.NativeEndian.Uint32(raw[12:])
		name, _, _ := bytes.Cut(raw[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], []byte{0})
		x.events = raw[unix.SizeofInotifyEvent+size:]
		x.lost = x.lost || mask&unix.IN_Q_OVERFLOW != 0
		if in, known := x.dirs[wd]; known && len(name) > 0 {
			x.come(in, string(name), mask&unix.IN_ISDIR != 0)
		}
	}
}

// come takes in an entry that is new in a directory.
func (x *linkIndex) come(in *place, name string, isDir bool) {
	if isDir {
		x.add(&place{in, name})
		return
	}
	at := in.rel()
	rel := join(at, name)
	access := x.judge(rel)
	if access == Full {
		return
	}
	dir, err := x.open(at)
	if err != nil {
		x.fail(at, err)
		return
	}
	defer func() { _ = dir.Close() }()
	x.see(int(dir.Fd()), name, rel, access)
}

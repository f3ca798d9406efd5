package enforce

import (
	"bytes"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxPointers bounds the files that programs are writing and that are not there yet.
const maxPointers = 16

// pointers are the files of git's with a path in them that programs are writing (see
// [Writer.Points]), and configurations that they write without a lock in git directories that were
// made inside, as libgit2 begins one. A program gets a file in memory, and the Guard makes the real
// one of it before the next call of anybody that it answers: git makes one before it looks for the
// file.
type pointers struct {
	some atomic.Bool
	mu   sync.Mutex
	all  []pointer
}

// pointer is one of them.
type pointer struct {
	memory   int // what the program writes to
	at       entry
	mode     uint32
	pid      int
	replaces bool // there is one that it takes the place of
	config   bool
	begun    time.Time
	last     []byte // of a configuration: what was written to its place
}

// configTime is for how long a program may go on writing a configuration that it has opened.
const configTime = 10 * time.Second

func (p *pointer) close() {
	_ = unix.Close(p.memory)
	_ = unix.Close(p.at.parent)
}

func (p *pointers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.all {
		p.all[i].close()
	}
	p.all = nil
}

// mayPoint reports whether an entry has one of the names, which most have not.
func mayPoint(name string) bool {
	return slices.Contains([]string{".git", "gitdir", "commondir", "config"}, path.Base(name))
}

// pointer opens what a program may write to instead of an entry; ok is false when it is no pointer.
func (t *task) pointer(at *entry, flags int, mode uint32, replaces bool) (fd int, e unix.Errno, ok bool) {
	if flags&unix.O_ACCMODE == unix.O_RDONLY || at.dots() || !mayPoint(at.name) || at.name != at.bare() || !t.g.mayChange(&at.dir) {
		return -1, 0, false
	}
	is, config := false, t.g.isNewConfig(at)
	t.g.writers(at, func(w Writer, rel string) { is = is || w.Points(rel) })
	if !is && !config {
		return -1, 0, false
	}
	if unix.Faccessat(at.parent, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil {
		return -1, unix.EACCES, true
	}
	if !t.waits() {
		return -1, unix.EINTR, true
	}
	p := pointer{at: *at, mode: mode, pid: t.tid, replaces: replaces, config: config, begun: time.Now()}
	var err error
	if p.memory, err = unix.MemfdCreate(at.name, unix.MFD_CLOEXEC); err != nil {
		return -1, number(err), true
	}
	if p.at.parent, err = unix.Openat(at.parent, ".", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		_ = unix.Close(p.memory)
		return -1, number(err), true
	}
	if fd, e = reopen(p.memory, flags&(unix.O_ACCMODE|unix.O_APPEND), 0); e == 0 && config && !replaces {
		t.g.putPointer(&p, nil) // an empty one is whole, and looked for
		p.replaces = true
	}
	if e == 0 && !t.g.pointers.add(p) {
		_ = unix.Close(fd)
		e = unix.EMFILE
	}
	if e != 0 {
		p.close()
		return -1, e, true
	}
	return fd, 0, true
}

// newPointer is pointer for an entry that is not there.
func (t *task) newPointer(at *entry, flags int, mode uint32) (fd int, e unix.Errno, ok bool) {
	if !mayPoint(at.name) {
		return -1, 0, false
	}
	if mode, e = t.mode(at.parent, mode); e != 0 {
		return -1, e, true
	}
	return t.pointer(at, flags, mode, false)
}

// oldPointer is pointer for a file that was found by a name.
func (t *task) oldPointer(file, base int, name string, flags int) (fd int, e unix.Errno, ok bool) {
	var is unix.Stat_t
	at, e := t.entryOf(base, name)
	if e != 0 || unix.Fstat(file, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, 0, false
	}
	if o, there := at.object(); !there || o.inode() != (inode{uint64(is.Dev), is.Ino}) {
		return -1, 0, false
	}
	return t.pointer(at, flags, is.Mode&0o777, true)
}

func (p *pointers) add(one pointer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= maxPointers {
		return false
	}
	p.all = append(p.all, one)
	p.some.Store(true)
	return true
}

// point makes the files whose content programs have written.
func (t *task) point() {
	p := &t.g.pointers
	p.mu.Lock()
	defer p.mu.Unlock()
	t.g.entries.RLock()
	defer t.g.entries.RUnlock()
	var kept []pointer
	p.all = slices.DeleteFunc(p.all, func(one pointer) bool {
		text, open := one.text(), one.isOpen(t.g) && (!one.config || time.Since(one.begun) < configTime)
		if len(text) < maxPath && !bytes.HasSuffix(text, []byte("\n")) && open {
			return false // it is still being written
		}
		if !one.config || len(text) > 0 && !bytes.Equal(text, one.last) {
			t.g.putPointer(&one, text)
		}
		if one.config && open { // more may follow
			one.last = text
			kept = append(kept, one)
			return true
		}
		one.close()
		return true
	})
	p.all = append(p.all, kept...)
	p.some.Store(len(p.all) > 0)
}

// text reads what the program has written so far: of a configuration up to maxWritten bytes, of a
// path up to maxPath, which a good one is shorter than.
func (p *pointer) text() []byte {
	size := maxPath
	if p.config {
		size = maxWritten
	}
	var is unix.Stat_t
	if unix.Fstat(p.memory, &is) != nil {
		return nil
	}
	text := make([]byte, min(int64(size), is.Size))
	n, _ := unix.Pread(p.memory, text, 0)
	return text[:max(n, 0)]
}

// isNewConfig reports whether an entry is git's configuration in a directory that was made inside.
func (g *Guard) isNewConfig(at *entry) (is bool) {
	if path.Base(at.name) != "config" || !g.made.isFresh(&at.dir) {
		return false
	}
	g.writers(at, func(w Writer, rel string) { is = is || w.Locks(rel+".lock") == rel })
	return is
}

// isOpen reports whether the program has not ended.
func (p *pointer) isOpen(g *Guard) bool {
	return unix.Faccessat(g.proc, decimal(p.pid), unix.F_OK, 0) == nil
}

// putPointer writes a pointer to its place, if it may lead to where it does.
func (g *Guard) putPointer(p *pointer, text []byte) {
	dir, e := g.inspect(p.at.parent)
	if e != 0 || !g.mayChange(&dir) {
		return
	}
	p.at.dir = dir
	var now []byte
	if p.replaces {
		var err error
		if now, _, err = readEntry(&p.at, nil); err != nil {
			return
		}
	} else if exists(p.at.parent, p.at.name) {
		return // somebody outside was quicker
	}
	var err error
	is := false
	g.writers(&p.at, func(w Writer, rel string) {
		is = is || p.config || w.Points(rel)
		switch {
		case !is || err != nil:
		case p.config:
			text, err = w.Accept(rel, now, text)
		default:
			err = w.AcceptPointer(rel, now, text, g.made.isFresh(&dir))
		}
	})
	switch {
	case !is:
	case err != nil:
		g.o.Denied(Denial{Operation: "open", Path: p.at.path(), PID: p.pid, Reason: err.Error()})
	default:
		_ = writeEntry(&p.at, text, p.mode)
	}
}

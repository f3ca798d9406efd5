package changes

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
)

// maxHashed is the size up to which content is compared; of larger files the stamps are.
const maxHashed = 64 << 20

// reader is the second pass: the content of what changed.
type reader struct {
	root    *root
	store   *store // nil: nothing is kept
	window  time.Duration
	maxFile int64
	twins   map[inode]bool // hidden files with several names; nil when not all are known
	mine    func(info) bool
}

// readAll reads what must be read, until ctx ends.
func (r *reader) readAll(ctx context.Context, work []reading) {
	order(work)
	var mu sync.Mutex
	next := 0
	take := func() (reading, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(work) || ctx.Err() != nil {
			return reading{}, false
		}
		next++
		return work[next-1], true
	}
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		workers.Go(func() {
			b := buffers{}
			for w, ok := take(); ok; w, ok = take() {
				r.read(ctx, w, &b)
			}
		})
	}
	workers.Wait()
}

// read reads one file or link. What cannot be read stays unread: its stamps are
// compared then.
func (r *reader) read(ctx context.Context, w reading, b *buffers) {
	e, rel := w.e, join(w.dir, w.e.name)
	if e.kind == kindLink {
		if target, err := r.root.readLink(rel); err == nil {
			e.read, e.racy, e.sum = true, r.recent(e.ctime), sha256.Sum256([]byte(target))
			r.keep(e.sum, []byte(target), b)
		}
		return
	}
	if e.size > maxHashed || r.secret(e) || !r.mine(e.info) {
		return
	}
	f, in, err := r.root.file(rel)
	if err != nil {
		return
	}
	defer f.Close()
	if in.dev != e.dev || in.ino != e.ino || in.size > maxHashed || in.names > e.names {
		return // it was replaced, or linked, meanwhile; the next look sees by what
	}
	e.info = in
	if in.size <= r.maxFile {
		e.sum, err = r.readSmall(f, in, b)
	} else {
		e.sum, err = hash(ctx, f)
	}
	after, statErr := stat(f)
	if errors.Join(err, statErr) != nil {
		return
	}
	e.read, e.racy = true, after.stamp != in.stamp || r.recent(in.ctime)
}

// secret says that a file is, or may be, a hidden one by another name.
func (r *reader) secret(e *entry) bool {
	if e.names < 2 || !r.twins[inode{e.dev, e.ino}] && r.twins != nil {
		return false
	}
	e.hidden = r.twins != nil
	return true
}

// recent says that a file may change once more with the same change time: clocks
// of file systems go in steps.
func (r *reader) recent(ctime int64) bool {
	return ctime > time.Now().Add(-r.window).UnixNano()
}

func (r *reader) readSmall(f *os.File, in info, b *buffers) (sum, error) {
	b.content.Reset()
	if _, err := b.content.ReadFrom(io.LimitReader(f, r.maxFile+1)); err != nil {
		return sum{}, err
	}
	data := b.content.Bytes()
	id := sha256.Sum256(data)
	if int64(len(data)) <= r.maxFile && int64(len(data)) == in.size {
		r.keep(id, data, b)
	}
	return id, nil
}

// keep keeps content. That the store is full, or the disk, costs the undo of what is not kept.
func (r *reader) keep(id sum, data []byte, b *buffers) {
	if r.store != nil {
		r.store.add(id, data, b)
	}
}

func hash(ctx context.Context, f io.Reader) (id sum, err error) {
	h := sha256.New()
	for n := int64(0); n < maxHashed && err == nil; {
		if ctx.Err() != nil {
			return id, ctx.Err()
		}
		var copied int64
		copied, err = io.CopyN(h, f, 1<<20)
		n += copied
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return id, err
	}
	h.Sum(id[:0])
	return id, nil
}

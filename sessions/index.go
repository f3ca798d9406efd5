package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"gander.dev/gander/acp"
)

// indexVersion changes when a fold means something else; its fields count by themselves.
const indexVersion = 1

// The index keeps what was summed up of each transcript, so that it is not read
// again: lines "version id offset size mtime updated check {fold}", the last one of
// an id counts. It is a cache. A line holds only as long as its transcript is as it was
// then, or has grown, which size, time and the last bytes before offset tell;
// anything else is read again, and a lost or damaged index costs only time.
type index struct {
	version string
	// mu guards the fields below.
	mu      sync.Mutex
	file    os.FileInfo // the index as it was read
	read    int64       // bytes of it
	lines   int         // of the file
	entries map[acp.SessionID]*entry
	// summing is held, by the id of a transcript, by who reads it: nobody reads
	// what another one is about to know, or waits for a long one that is not his.
	summing [64]sync.Mutex
}

// entry is one line of the index.
type entry struct {
	id      acp.SessionID
	offset  int64 // end of the last complete line that is summed up
	size    int64 // of the transcript when it was looked at
	mtime   int64 // ns
	updated int64 // ms
	check   uint32
	raw     []byte // the fold
}

const indexFile = "index"

// foldVersion names the fields of a fold.
func foldVersion() string {
	sum := crc32.NewIEEE()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[fold]()) {
		fmt.Fprintln(sum, f.Name, f.Tag)
	}
	return fmt.Sprintf("%d-%08x", indexVersion, sum.Sum32())
}

func (s *Store) indexPath() string { return filepath.Join(s.dir, indexFile) }

func appendEntry(dst []byte, version string, e *entry) []byte {
	dst = fmt.Appendf(dst, "%s %s %d %d %d %d %d ", version, e.id, e.offset, e.size, e.mtime, e.updated, e.check)
	return append(append(dst, e.raw...), '\n')
}

// parseEntry reads a line; nil when it is not one of the version.
func parseEntry(line []byte, version string) *entry {
	e := &entry{}
	line, ok := bytes.CutPrefix(line, []byte(version+" "))
	if !ok {
		return nil
	}
	id, rest, ok := bytes.Cut(line, []byte(" "))
	e.id = acp.SessionID(id)
	if !ok || CheckID(e.id) != nil {
		return nil
	}
	for _, field := range []*int64{&e.offset, &e.size, &e.mtime, &e.updated} {
		var word []byte
		word, rest, ok = bytes.Cut(rest, []byte(" "))
		n, err := strconv.ParseInt(string(word), 10, 64)
		if !ok || err != nil {
			return nil
		}
		*field = n
	}
	word, rest, ok := bytes.Cut(rest, []byte(" "))
	check, err := strconv.ParseUint(string(word), 10, 32)
	if !ok || err != nil || len(rest) < 2 || rest[0] != '{' || rest[len(rest)-1] != '}' || e.offset < 0 {
		return nil
	}
	e.check, e.raw = uint32(check), rest
	return e
}

// load reads what of the index file is new. mu is held.
func (x *index) load(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if x.file == nil || !os.SameFile(x.file, info) || info.Size() < x.read {
		x.entries, x.read, x.lines = map[acp.SessionID]*entry{}, 0, 0
	}
	x.file = info
	raw := make([]byte, info.Size()-x.read)
	n, err := f.ReadAt(raw, x.read)
	if err != nil && !errors.Is(err, io.EOF) {
		return
	}
	for line := range bytes.Lines(raw[:n]) {
		content, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			break // being written
		}
		x.read += int64(len(line))
		x.lines++
		if e := parseEntry(content, x.version); e != nil {
			x.entries[e.id] = e
		}
	}
}

// fresh brings the entries of the given transcripts up to date and returns them.
// Those without a header are left out: damaged are the ids of those that have records,
// and of those that this user may not read.
func (s *Store) fresh(ctx context.Context, files []transcriptFile) (out []*entry, damaged []acp.SessionID, err error) {
	x := &s.index
	x.mu.Lock()
	x.load(s.indexPath())
	if x.entries == nil {
		x.entries = map[acp.SessionID]*entry{}
	}
	x.mu.Unlock()
	out = make([]*entry, 0, len(files))
	var changed []*entry
	for _, f := range files {
		e, read, err := s.freshEntry(ctx, f)
		if errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, fs.ErrPermission) { // another user's; the rest is to be had all the same
			damaged = append(damaged, f.id)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading session %s: %w", f.id, err)
		}
		if read {
			changed = append(changed, e)
		}
		switch {
		case e.headed():
			out = append(out, e)
		case e.offset > 0:
			damaged = append(damaged, e.id)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s.saveIndex(x, changed)
	return out, damaged, nil
}

// freshEntry is the entry of a transcript, brought up to date; read is whether the
// transcript had to be read for that.
func (s *Store) freshEntry(ctx context.Context, f transcriptFile) (e *entry, read bool, err error) {
	x := &s.index
	turn := &x.summing[crc32.ChecksumIEEE([]byte(f.id))%uint32(len(x.summing))]
	turn.Lock()
	defer turn.Unlock()
	e = x.entry(f.id)
	if e.holds(f) {
		return e, false, nil
	}
	if f, err = s.stat(f.id); err != nil { // who read it meanwhile knows more of it
		return nil, false, err
	}
	if e.holds(f) {
		return e, false, nil
	}
	if e, err = s.sum(ctx, f, e); err != nil {
		return nil, false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries[f.id] = e
	return e, true, nil
}

func (x *index) entry(id acp.SessionID) *entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[id]
}

// holds reports whether the transcript is as it was when the entry was made.
func (e *entry) holds(f transcriptFile) bool {
	return e != nil && e.size == f.size && e.mtime == f.mtime
}

func (e *entry) headed() bool { return e.offset > 0 && bytes.Contains(e.raw, []byte(`"headed":true`)) }

// transcriptFile is a transcript as the directory shows it.
type transcriptFile struct {
	id          acp.SessionID
	size, mtime int64
}

func (s *Store) stat(id acp.SessionID) (transcriptFile, error) {
	if CheckID(id) != nil {
		return transcriptFile{}, ErrNotFound
	}
	info, err := os.Lstat(s.path(id))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return transcriptFile{}, ErrNotFound
	}
	if err != nil {
		return transcriptFile{}, err
	}
	return transcriptFile{id, info.Size(), info.ModTime().UnixNano()}, nil
}

// files are the transcripts that there are.
func (s *Store) files() ([]transcriptFile, error) {
	names, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	out := make([]transcriptFile, 0, len(names))
	for _, n := range names {
		id, ok := strings.CutSuffix(n.Name(), ".jsonl")
		if !ok || !n.Type().IsRegular() {
			continue
		}
		if f, err := s.stat(acp.SessionID(id)); err == nil { // else it is not one, or has just been deleted
			out = append(out, f)
		}
	}
	return out, nil
}

// sum reads what a transcript has more than an earlier entry of it; everything
// when that does not fit any more.
func (s *Store) sum(ctx context.Context, f transcriptFile, before *entry) (*entry, error) {
	file, err := os.Open(s.path(f.id))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var sum fold
	var offset int64
	if before != nil && f.size >= before.offset && checkOf(file, before.offset) == before.check && hasHeader(ctx, file) && json.Unmarshal(before.raw, &sum) == nil {
		offset = before.offset
	} else {
		sum = fold{}
	}
	end, err := scan(ctx, file, offset, func(line []byte, whole bool) bool {
		if whole {
			r := decodeRecord(line)
			sum.add(&r)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	sum.Bytes = end
	raw, err := json.Marshal(&sum)
	if err != nil {
		return nil, err
	}
	return &entry{f.id, end, f.size, f.mtime, sum.UpdatedAt.UnixMilli(), checkOf(file, end), raw}, nil
}

// hasHeader reports whether the first line of a transcript is its header.
func hasHeader(ctx context.Context, file *os.File) (ok bool) {
	_, err := scan(ctx, file, 0, func(line []byte, _ bool) bool {
		_, ok = decodeRecord(line).Body.(Header)
		return false
	})
	return ok && err == nil
}

// checkOf is the sum of the last bytes before offset.
func checkOf(f *os.File, offset int64) uint32 {
	var last [64]byte
	start := max(0, offset-int64(len(last)))
	n, err := f.ReadAt(last[:offset-start], start)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	return crc32.ChecksumIEEE(last[:n])
}

// saveIndex adds entries to the file. When it cannot, or another process is at
// it, they are summed up again another time. mu is held.
func (s *Store) saveIndex(x *index, changed []*entry) {
	if len(changed) == 0 {
		return
	}
	lock, err := s.tryLock(".index")
	if err != nil {
		return
	}
	defer lock.release()
	if x.lines > 2*len(x.entries)+1000 {
		err = s.rewriteIndex(x)
	} else {
		err = s.extendIndex(changed)
	}
	if err != nil {
		s.o.Log.Warn("writing the index of sessions; lists take longer without", "err", err)
	}
}

func (s *Store) extendIndex(changed []*entry) error {
	f, err := os.OpenFile(s.indexPath(), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, torn, err := endOf(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	var lines []byte
	if torn {
		lines = append(lines, '\n')
	}
	for _, e := range changed {
		if _, err := s.stat(e.id); err != nil {
			continue // deleted since: its words are not to come back
		}
		lines = appendEntry(lines, s.index.version, e)
	}
	_, err = f.Write(lines)
	return errors.Join(err, f.Close())
}

// rewriteIndex writes the entries alone, without the lines that do not count any
// more and those of sessions that are gone.
func (s *Store) rewriteIndex(x *index) error {
	var lines []byte
	for id, e := range x.entries {
		if _, err := s.stat(id); err != nil {
			delete(x.entries, id)
			continue
		}
		lines = appendEntry(lines, s.index.version, e)
	}
	x.file = nil // what is read next is another file
	return writeFile(s.indexPath(), lines)
}

// dropIndexed takes the words of sessions that are deleted out of the index, also those
// that another version of gander wrote.
func (s *Store) dropIndexed() error {
	x := &s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	lock, err := s.waitLock(".index") // held for the time of one write
	if err != nil {
		return err
	}
	defer lock.release()
	x.load(s.indexPath())
	if x.lines == 0 {
		return nil
	}
	return s.rewriteIndex(x)
}

// writeFile replaces a file, whatever happens meanwhile.
func writeFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

package telemetry

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// lineLimit bounds a line of the files, in bytes: the longest content with every
// character escaped, and the rest of the event. What is longer is not ours.
const lineLimit = 6*textLimit + 16<<10

// Reader reads the events of a Spool in order, from a number on, also while more are
// appended. It is used by one goroutine; Close it.
type Reader struct {
	s     *Spool
	next  int64 // the number of the event to read next
	file  *os.File
	lines *bufio.Reader
	until int64 // the first number that is not in file; 0 for the one that is written to
}

// Reader returns a Reader of what comes after a number.
func (s *Spool) Reader(after int64) *Reader { return &Reader{s: s, next: max(after, 0) + 1} }

// Next returns the next events that are safe: none when there is no more, at most limit
// of them, and no more when they have that many bytes together. An event that cannot be
// read any more, or that was given up, is replaced by one of type error that says so:
// the numbers have no gaps.
func (r *Reader) Next(limit int, bytes int64) ([]Event, error) {
	r.s.mu.Lock()
	safe, oldest := r.s.safe, r.s.segments[0].first
	r.s.mu.Unlock()
	var out []Event
	for size := int64(0); len(out) < limit && r.next <= safe && size < bytes; {
		if r.next < oldest {
			out = append(out, r.lost("is not kept any more"))
			r.next++
			continue
		}
		line, err := r.line()
		if err != nil {
			return out, err
		}
		e := r.lost("could not be read back")
		var read Event
		if json.Unmarshal(line, &read) == nil && read.Seq == r.next && read.RunID == r.s.o.RunID {
			e = read
		}
		if size += int64(len(line)); size > bytes && len(out) > 0 {
			_ = r.Close() // read again next time
			break
		}
		out = append(out, e)
		r.next++
	}
	return out, nil
}

func (r *Reader) lost(what string) Event {
	e := stamped(Problem(fmt.Sprintf("The event %d %s.", r.next, what)))
	e.RunID, e.Seq = r.s.o.RunID, r.next
	return e
}

// line is the line of the event r.next, nil when there is none.
func (r *Reader) line() ([]byte, error) {
	for range 2 { // a file that has come to its end may have a successor now
		if r.file != nil && r.until != 0 && r.next >= r.until {
			_ = r.Close()
		}
		if r.file == nil {
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		line, _, err := readLine(r.lines)
		if err == nil {
			return line, nil
		}
		_ = r.Close()
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reading kept events: %w", err)
		}
	}
	return nil, nil
}

// open finds the file of the event r.next, and its place there.
func (r *Reader) open() error {
	r.s.mu.Lock()
	var in segment
	r.until = 0
	for _, g := range r.s.segments {
		if g.first > r.next {
			r.until = g.first
			break
		}
		in = g
	}
	r.s.mu.Unlock()
	f, err := os.Open(filepath.Join(r.s.o.Dir, in.name()))
	if err != nil {
		return fmt.Errorf("reading kept events: %w", err)
	}
	r.file, r.lines = f, bufio.NewReaderSize(f, 64<<10)
	for range r.next - in.first {
		if _, _, err := readLine(r.lines); err != nil {
			break // what is missing is seen when it is to be read
		}
	}
	return nil
}

// Close lets go of the file; the Reader can be used on.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file, r.lines = nil, nil
	return err
}

// readLine reads a line without its end, and how many bytes it takes up. One that is too
// long is read over and nil; one without an end is io.EOF.
func readLine(r *bufio.Reader) (line []byte, n int64, err error) {
	long := false
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		if long = long || n > lineLimit; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, n, err
		case long:
			return nil, n, nil
		}
		return line[:len(line)-1], n, nil
	}
}

// countLines counts the lines at the beginning of a file, and their bytes, up to the last
// one that is an event: a crash of the machine can leave anything after it.
func countLines(f io.Reader) (lines, size int64, err error) {
	r := bufio.NewReaderSize(f, 64<<10)
	var all, bytes int64
	for {
		line, n, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return lines, size, nil
		}
		if err != nil {
			return 0, 0, err
		}
		if all, bytes = all+1, bytes+n; isEvent(line) {
			lines, size = all, bytes
		}
	}
}

func isEvent(line []byte) bool {
	var e struct {
		Seq int64 `json:"seq"`
	}
	return json.Unmarshal(line, &e) == nil && e.Seq > 0
}

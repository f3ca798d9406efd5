package shell

import (
	"bytes"
	"sync"
)

// stream is one of a command's outputs.
type stream int

const (
	stdout stream = iota
	stderr
	streams
)

func (s stream) String() string { return [...]string{"stdout", "stderr"}[s] }

// maxHeld is how much of a line is held back until its end has come. Longer ones
// are passed on in pieces.
const maxHeld = 64 << 10

// capture takes a command's output and merges both streams by lines: what is
// written of a line waits for its end, so that the streams do not cut into each
// other's lines.
type capture struct {
	all *record
	// single are the streams apart; nil unless they were asked for.
	single [streams]*record
	live   *live

	// mu guards the fields below, and the records.
	mu   sync.Mutex
	held [streams][]byte
	// open says of a stream that the last that was passed on is no whole line.
	open [streams]bool
}

func newCapture(f *spoolFile, split bool, l *live) *capture {
	c := &capture{all: &record{file: f}, live: l}
	if split {
		for s := range c.single {
			c.single[s] = &record{}
		}
	}
	return c
}

// write takes a piece of a stream.
func (c *capture) write(s stream, piece []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.single[s]; r != nil {
		r.write(piece)
	}
	c.live.feed(s, piece)
	end := bytes.LastIndexByte(piece, '\n') + 1
	if end > 0 {
		c.pass(s)
		c.all.write(piece[:end])
		c.open[s] = false
		piece = piece[end:]
	}
	c.held[s] = append(c.held[s], piece...)
	if len(c.held[s]) > maxHeld {
		c.pass(s)
	}
}

// pass writes what is held of a stream, which is no whole line.
func (c *capture) pass(s stream) {
	c.open[s] = c.open[s] || len(c.held[s]) > 0
	c.all.write(c.held[s])
	c.held[s] = c.held[s][:0]
}

// end is the end of a stream: an unfinished line is finished.
func (c *capture) end(s stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live.end(s)
	c.finishLine(s)
}

func (c *capture) finishLine(s stream) {
	c.pass(s)
	if c.open[s] {
		c.all.write([]byte{'\n'})
		c.open[s] = false
	}
}

// snapshot is the output so far. What goes on is told to be kept: its file exists
// from now on.
func (c *capture) snapshot(limits Limits, goesOn bool) Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range streams {
		c.live.end(s)
		c.finishLine(s)
	}
	o := Output{Merged: c.all.text(limits, goesOn)}
	if c.single[stdout] != nil {
		o.Stdout, o.Stderr = c.single[stdout].text(limits, false), c.single[stderr].text(limits, false)
	}
	return o
}

// peek is the output so far of what goes on, or of what has ended.
func (c *capture) peek(limits Limits, goesOn bool) Text {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range streams {
		c.pass(s)
	}
	return c.all.text(limits, goesOn)
}

// spool has all output go to a file from now on.
func (c *capture) spool() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.spool()
}

// close ends the capture: nothing is written any more.
func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.close()
}

// record is one text: its size, its end in memory, all of it in a file when it is
// long. Its owner locks.
type record struct {
	file  *spoolFile // nil: the end is all that is kept
	bytes int64
	lines int64
	last  byte
	tail  []byte // the last bytes, maxTail or more when there are so many
	// spooling says that the file has all of it so far.
	spooling bool
	// fault is why there is no file.
	fault error
}

// maxTail is how much of the end is kept in memory; texts up to this size need
// no file.
const maxTail = 128 << 10

func (r *record) write(b []byte) {
	if len(b) == 0 {
		return
	}
	if r.file != nil && !r.spooling && r.bytes+int64(len(b)) > maxTail {
		r.spool()
	}
	if r.spooling {
		r.file.write(b)
	}
	r.bytes += int64(len(b))
	r.lines += int64(bytes.Count(b, []byte{'\n'}))
	r.last = b[len(b)-1]
	r.keep(b)
}

// keep appends to the tail and forgets its beginning now and then.
func (r *record) keep(b []byte) {
	if len(b) >= maxTail {
		r.tail = append(r.tail[:0], b[len(b)-maxTail:]...)
		return
	}
	if len(r.tail)+len(b) > 2*maxTail {
		r.tail = r.tail[:copy(r.tail, r.tail[len(r.tail)-maxTail:])]
	}
	r.tail = append(r.tail, b...)
}

// spool begins the file with what there is.
func (r *record) spool() {
	if r.file == nil || r.spooling || r.fault != nil {
		return
	}
	if r.fault = r.file.create(); r.fault == nil {
		r.spooling = true
		r.file.write(r.tail)
	}
}

func (r *record) ended() bool { return r.bytes == 0 || r.last == '\n' }

func (r *record) close() {
	if r.spooling {
		r.file.close()
	}
}

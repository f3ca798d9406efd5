package shell

import (
	"bytes"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

// What is shown of output while it comes. Whoever reads it can take no more.
const (
	// liveWindow is the time in which at most liveLines lines and liveBytes bytes
	// are passed on; what is above is counted.
	liveWindow = 100 * time.Millisecond
	liveLines  = 5000
	liveBytes  = 64 << 10
	// liveQuiet is how long an unfinished line waits for its end, and how often one
	// that is written over (progress by \r) is shown.
	liveQuiet = 150 * time.Millisecond
	// livePiece is the most that is passed on at once.
	livePiece = 4 << 10
)

// live passes output on as it comes: whole lines at once, unfinished ones after a
// moment, of a line that is written over the latest state, and never too much.
type live struct {
	emit func(stream, text string) // nil: nobody listens

	// mu guards the fields below; emit is called with it, in order.
	mu      sync.Mutex
	part    [streams]part
	window  time.Time // when it began
	lines   int       // passed on in the window
	bytes   int
	skipped [streams]int
	timer   *time.Timer
	armed   bool
	stopped bool
}

// part is an unfinished line.
type part struct {
	text []byte // not passed on yet
	// begun says that some of the line was passed on.
	begun bool
	// progress is a state of the line that was written over since.
	progress []byte
}

func (l *live) feed(s stream, piece []byte) {
	if l == nil || l.emit == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.turn(time.Now())
	for len(piece) > 0 {
		if l.lines >= liveLines || l.bytes >= liveBytes {
			piece = l.skip(s, piece)
		}
		i := lineEnd(piece)
		if i < 0 {
			l.grow(s, piece)
			break
		}
		l.grow(s, piece[:i])
		if piece[i] == '\n' {
			l.line(s)
		} else if i+1 >= len(piece) || piece[i+1] != '\n' {
			l.overwrite(s)
		}
		piece = piece[i+1:]
	}
	l.arm()
}

// lineEnd finds the first \n or \r.
func lineEnd(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		b = b[:i]
	}
	if r := bytes.IndexByte(b, '\r'); r >= 0 {
		return r
	}
	return i
}

// turn begins a new window when it is time and tells what the last one left out.
func (l *live) turn(now time.Time) {
	if now.Sub(l.window) < liveWindow {
		return
	}
	l.window, l.lines, l.bytes = now, 0, 0
	for s := range streams {
		l.tellSkipped(s)
	}
}

func (l *live) tellSkipped(s stream) {
	if n := l.skipped[s]; n > 0 {
		l.skipped[s] = 0
		l.pass(s, fmt.Appendf(nil, "[%d lines are not shown live]", n))
	}
}

// skip counts all whole lines and gives the end of what follows them.
func (l *live) skip(s stream, piece []byte) []byte {
	if end := bytes.LastIndexByte(piece, '\n') + 1; end > 0 {
		l.skipped[s] += bytes.Count(piece[:end], []byte{'\n'})
		l.part[s] = part{text: l.part[s].text[:0]}
		piece = piece[end:]
	}
	if len(piece) > livePiece {
		l.part[s].text = l.part[s].text[:0]
		piece = lastPiece(piece)
	}
	return piece
}

// lastPiece returns the most of the end of b that is passed on at once. It begins with a
// whole character.
func lastPiece(b []byte) []byte {
	b = b[max(0, len(b)-livePiece):]
	for i := 1; i < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:]
	}
	return b
}

// grow adds to the unfinished line and passes pieces of a very long one on.
func (l *live) grow(s stream, b []byte) {
	p := &l.part[s]
	if room := livePiece - len(p.text); len(b) <= room {
		p.text = append(p.text, b...)
		return
	} else if l.bytes >= liveBytes {
		p.text = append(p.text[:0], lastPiece(b)...)
		return
	} else {
		p.text = append(p.text, b[:room]...)
		l.show(s, false)
		l.grow(s, b[room:])
	}
}

// line ends the unfinished line.
func (l *live) line(s stream) {
	switch p := &l.part[s]; {
	case len(p.text) == 0 && p.progress != nil: // its \r\n came in two pieces
		l.pass(s, p.progress)
	case len(p.text) > 0 || !p.begun:
		l.show(s, true)
	}
	l.part[s] = part{text: l.part[s].text[:0]}
}

// overwrite keeps what a carriage return ended, to be shown by the timer.
func (l *live) overwrite(s stream) {
	p := &l.part[s]
	if len(p.text) > 0 {
		p.progress = append(p.progress[:0], p.text...)
	}
	p.text, p.begun = p.text[:0], false
	l.lines++ // it costs as much as one
}

// show passes the unfinished line on as far as it has whole characters; all of it
// at its end.
func (l *live) show(s stream, end bool) {
	p := &l.part[s]
	n := len(p.text)
	if !end {
		n = wholeRunes(p.text)
	}
	if n > 0 || end {
		l.pass(s, p.text[:n])
	}
	p.text = p.text[:copy(p.text, p.text[n:])]
	p.begun, p.progress = true, nil
}

func (l *live) pass(s stream, text []byte) {
	l.lines++
	l.bytes += len(text)
	l.emit(s.String(), valid(text))
}

// wholeRunes is how many bytes do not end within a character.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// arm sets the timer when something waits for it.
func (l *live) arm() {
	waiting := false
	for s := range streams {
		p := &l.part[s]
		waiting = waiting || len(p.text) > 0 || p.progress != nil || l.skipped[s] > 0
	}
	if !waiting || l.armed || l.stopped {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(liveQuiet, l.tick)
		return
	}
	l.timer.Reset(liveQuiet)
}

// tick shows what has waited.
func (l *live) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if l.stopped {
		return
	}
	l.turn(time.Now())
	for s := range streams {
		p := &l.part[s]
		switch {
		case len(p.text) > 0:
			l.show(s, false)
		case p.progress != nil:
			l.pass(s, p.progress)
			p.progress, p.begun = nil, true
		}
	}
	l.armAgain()
}

// armAgain is arm for what tick left: a character that is not whole waits for more
// output, not for time.
func (l *live) armAgain() {
	for s := range streams {
		if l.skipped[s] > 0 {
			l.arm()
			return
		}
	}
}

// end is the end of a stream.
func (l *live) end(s stream) {
	if l == nil || l.emit == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.tellSkipped(s)
	p := &l.part[s]
	switch {
	case len(p.text) > 0:
		l.show(s, true)
	case p.progress != nil:
		l.pass(s, p.progress)
	}
	l.part[s] = part{}
}

// stop lets nothing pass any more; when it returns nothing does.
func (l *live) stop() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

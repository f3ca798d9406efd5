package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	progressAfter = time.Second // what is quicker needs none
	progressEvery = 500 * time.Millisecond
	progressStill = 30 * time.Second // between signs of life where nobody looks
	progressLines = 40               // of output that are shown when it fails
)

// progress shows that something goes on, and for how long: on a terminal one line
// that changes, elsewhere a line at the beginning, now and then, and at the end.
// What is written to it is the output of the work; its last lines are shown when
// the work fails, all of it where stderr is no terminal.
type progress struct {
	label    string
	out      io.Writer
	terminal bool
	width    int
	began    time.Time
	stop     chan struct{}
	stopped  sync.WaitGroup

	// mu guards what follows.
	mu    sync.Mutex
	lines [][]byte // the last ones
	part  []byte   // of a line that has not ended
	shown bool     // the line that changes is on the terminal
}

// watch begins to show progress on stderr, until end.
func (a *app) watch(label string) *progress {
	p := &progress{
		label: label, out: a.err, terminal: isTerminal(a.err), width: widthOf(a.err),
		began: time.Now(), stop: make(chan struct{}),
	}
	if !p.terminal {
		fmt.Fprintln(p.out, label, "…")
	}
	p.stopped.Go(p.run)
	return p
}

// widthOf is how many columns a stream has; 80 where that cannot be known.
func widthOf(stream io.Writer) int {
	if f, ok := fileOf(stream); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 80
}

// during shows on a terminal that something goes on, and says nothing elsewhere.
func (a *app) during(label string, f func() check) check {
	if !isTerminal(a.err) {
		return f()
	}
	p := a.watch(label)
	defer p.clear()
	return f()
}

func (p *progress) run() {
	every := progressEvery
	if !p.terminal {
		every = progressStill
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.tick()
		}
	}
}

func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.began)
	switch {
	case !p.terminal:
		fmt.Fprintf(p.out, "… still %s, %s\n", p.label, took.Round(time.Second))
	case took >= progressAfter:
		text := fmt.Sprintf("%s … %s", p.label, took.Round(time.Second))
		if n := len(p.lines); n > 0 {
			text += "  " + printable(string(p.lines[n-1]))
		}
		fmt.Fprintf(p.out, "\r\x1b[K%s", cutTo(text, p.width-1))
		p.shown = true
	}
}

// cutTo is the first n characters of a text.
func cutTo(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// Write takes output of the work. Without a terminal it is passed on.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal {
		return p.out.Write(b)
	}
	p.part = append(p.part, b...)
	for {
		i := bytes.IndexAny(p.part, "\r\n")
		if i < 0 {
			break
		}
		if line := bytes.TrimSpace(p.part[:i]); len(line) > 0 {
			p.lines = append(p.lines, bytes.Clone(line))
		}
		p.part = p.part[i+1:]
	}
	if n := len(p.lines) - progressLines; n > 0 {
		p.lines = p.lines[n:]
	}
	return len(b), nil
}

// clear ends the progress and takes its line away.
func (p *progress) clear() {
	close(p.stop)
	p.stopped.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// end ends the progress, says how it went, and returns err.
func (p *progress) end(err error) error {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.terminal {
		for _, line := range append(p.lines, p.part) {
			if len(line) > 0 {
				fmt.Fprintln(p.out, printable(string(line)))
			}
		}
	}
	if took := time.Since(p.began); err == nil && took >= progressAfter {
		fmt.Fprintf(p.out, "%s: done after %s\n", p.label, took.Round(100*time.Millisecond))
	}
	return err
}

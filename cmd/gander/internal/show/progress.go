package show

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
)

const (
	progressAfter = time.Second // what is quicker needs none
	progressEvery = 500 * time.Millisecond
	progressStill = 30 * time.Second // between signs of life where nobody looks
	progressLines = 40               // of output that are shown when it fails
)

// Progress shows that something goes on, for how long, and how long it takes by estimate,
// which is as long as it took the last time: on a terminal one line
// that changes, elsewhere a line at the beginning, now and then, and at the end.
// What is written to it is the output of the work; its last lines are shown when
// the work fails, all of it where stderr is no terminal.
type Progress struct {
	label    string
	out      io.Writer
	terminal bool
	width    int
	began    time.Time
	estimate time.Duration // how long it may take; 0 when that is not known
	times    *times        // where to keep how long it took; nil for nowhere
	stop     chan struct{}
	stopped  sync.WaitGroup

	// mu guards what follows.
	mu    sync.Mutex
	lines [][]byte // the last ones
	part  []byte   // of a line that has not ended
	shown bool     // the line that changes is on the terminal
}

// Watch begins to show progress on stderr, until End or Clear. Usual is how long it takes where
// it was never done before, 0 when that cannot be said.
func Watch(a *cli.App, label string, usual time.Duration) *Progress {
	p := &Progress{
		label: label, out: a.Err, terminal: draws(a), width: cli.WidthOf(a.Err),
		began: time.Now(), times: timesOf(a), stop: make(chan struct{}),
	}
	p.estimate = cmp.Or(p.times.last(label), usual)
	if !p.terminal {
		fmt.Fprintf(p.out, "%s …%s\n", label, about(" about ", p.estimate))
	}
	p.stopped.Go(p.run)
	return p
}

// draws reports whether stderr is a terminal where a line can be written over.
func draws(a *cli.App) bool {
	return cli.IsTerminal(a.Err) && cli.Variable(a.Environ, "TERM") != "dumb"
}

// During shows on a terminal that something goes on, and says nothing elsewhere.
func During[T any](a *cli.App, label string, usual time.Duration, f func() T) T {
	if !draws(a) {
		return f()
	}
	p := Watch(a, label, usual)
	defer p.Done()
	return f()
}

// about returns an estimate behind a word; nothing for what takes no time worth saying.
func about(word string, estimate time.Duration) string {
	if estimate < 2*time.Second {
		return ""
	}
	return word + estimate.Round(time.Second).String()
}

func (p *Progress) run() {
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

func (p *Progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.began)
	switch {
	case !p.terminal:
		fmt.Fprintf(p.out, "… still %s, %s%s\n", p.label, took.Round(time.Second), p.expected(took))
	case took >= progressAfter:
		text := fmt.Sprintf("%s … %s%s", p.label, took.Round(time.Second), p.expected(took))
		if n := len(p.lines); n > 0 {
			text += "  " + cli.Printable(string(p.lines[n-1]))
		}
		fmt.Fprintf(p.out, "\r\x1b[K%s", cutTo(text, p.width-1))
		p.shown = true
	}
}

// expected returns the estimate, in the words for the time that it took so far.
func (p *Progress) expected(took time.Duration) string {
	if took > p.estimate {
		return about(", longer than the usual ", p.estimate)
	}
	return about(" of about ", p.estimate)
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
func (p *Progress) Write(b []byte) (int, error) {
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

// Clear ends the progress and takes its line away.
func (p *Progress) Clear() {
	close(p.stop)
	p.stopped.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// Done ends the progress like Clear, and keeps how long it took.
func (p *Progress) Done() {
	p.Clear()
	p.times.keep(p.label, time.Since(p.began))
}

// End ends the progress, says how it went, and returns err.
func (p *Progress) End(err error) error {
	if err != nil {
		p.Clear()
	} else {
		p.Done()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.terminal {
		for _, line := range append(p.lines, p.part) {
			if len(line) > 0 {
				fmt.Fprintln(p.out, cli.Printable(string(line)))
			}
		}
	}
	if took := time.Since(p.began); err == nil && took >= progressAfter {
		fmt.Fprintf(p.out, "%s: done after %s\n", p.label, took.Round(100*time.Millisecond))
	}
	return err
}

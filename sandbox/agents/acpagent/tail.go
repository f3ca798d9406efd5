package acpagent

import (
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// tail keeps the end of an agent's stderr, which says why it died.
type tail struct {
	done chan struct{}
	// mu guards lines.
	mu    sync.Mutex
	lines []string
}

const (
	tailLines    = 8
	tailLineSize = 500 // bytes
)

func newTail(r io.Reader, log *slog.Logger) *tail {
	t := &tail{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.read(r, log)
	}()
	return t
}

func (t *tail) read(r io.Reader, log *slog.Logger) {
	buf := make([]byte, 4096)
	var partial []byte
	for {
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			switch {
			case c == '\n':
				t.add(string(partial), log)
				partial = partial[:0]
			case len(partial) < tailLineSize:
				partial = append(partial, c)
			}
		}
		if err != nil {
			t.add(string(partial), log)
			return
		}
	}
}

func (t *tail) add(line string, log *slog.Logger) {
	line = strings.TrimSpace(strings.ToValidUTF8(line, "?"))
	if line == "" {
		return
	}
	log.Debug("agent stderr", "line", line)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
}

// wait returns when everything was read, or after d: something else may hold the
// stream open.
func (t *tail) wait(d time.Duration) {
	select {
	case <-t.done:
	case <-time.After(d):
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, " | ")
}

//go:build cgo

package analyze

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

// A parser that is told to stop does so long before it would be done. (How long
// that takes is compared with the whole work, not with the clock.)
func TestParserStops(t *testing.T) {
	src := bytes.Repeat([]byte("def f(a, b):\n    return g(a, [b]) + h(b, {a: b})\n"), 20_000)
	p := newPython(t)
	defer p.close()
	started := time.Now()
	p.parser.Parse(src, nil).Close()
	whole := time.Since(started)
	for attempt := range 3 { // the machine may have been busy with something else
		ctx, cancel := context.WithTimeout(t.Context(), whole/20)
		defer cancel()
		p := newPython(t) // one that was stopped is not used again
		defer p.close()
		started = time.Now()
		_, err := p.parse(ctx, src)
		stopped := time.Since(started)
		if !errors.Is(err, errTime) {
			t.Fatalf("all of it takes %v, and no end after %v: %v", whole, whole/20, err)
		}
		if stopped < whole/3 {
			return
		}
		t.Logf("attempt %d: all of it takes %v, stopping after %v took %v", attempt, whole, whole/20, stopped)
	}
	t.Error("the parser does not stop")
}

func newPython(t *testing.T) *treeSitter {
	t.Helper()
	for _, l := range languages() {
		if l.name != "python" {
			continue
		}
		p, err := l.newParser()
		if err != nil {
			t.Fatal(err)
		}
		return p.(*treeSitter)
	}
	t.Fatal("no python")
	return nil
}

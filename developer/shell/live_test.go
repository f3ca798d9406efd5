package shell

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// heard collects what a live view passes on.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(stream, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, stream[3:4]+":"+text)
}

func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

// TestLive: o is stdout, by its fourth letter, and e stderr.
func TestLive(t *testing.T) {
	type step struct {
		s     stream
		text  string
		wait  time.Duration
		heard []string
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"lines at once", []step{{stdout, "a\n  b\n\n", 0, []string{"o:a", "o:  b", "o:"}}}},
		{"both streams", []step{{stdout, "a\n", 0, []string{"o:a"}}, {stderr, "b\n", 0, []string{"e:b"}}}},
		{"a line in pieces", []step{{stdout, "a", 0, nil}, {stdout, "b\n", 0, []string{"o:ab"}}}},
		{"a prompt after a moment", []step{{stdout, "name? ", time.Second, []string{"o:name? "}}, {stdout, "x\n", 0, []string{"o:x"}}}},
		{"a prompt and its end alone", []step{{stdout, "name? ", time.Second, []string{"o:name? "}}, {stdout, "\n", 0, nil}}},
		{"progress: the latest state", []step{{stdout, "1%\r2%\r3%\r", time.Second, []string{"o:3%"}}, {stdout, "4%\r", time.Second, []string{"o:4%"}}, {stdout, "done\n", 0, []string{"o:done"}}}},
		{"line ends of Windows", []step{{stdout, "a\r\nb\r", 0, []string{"o:a"}}, {stdout, "\nc\n", 0, []string{"o:b", "o:c"}}}},
		{"a character in two pieces", []step{{stdout, "\xc3", time.Second, nil}, {stdout, "\xa4\n", 0, []string{"o:ä"}}}},
		{"no text", []step{{stdout, "\xff\n", 0, []string{"o:\uFFFD"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h heard
				l := &live{emit: h.add}
				for _, s := range tt.steps {
					l.feed(s.s, []byte(s.text))
					time.Sleep(s.wait)
					synctest.Wait()
					if got := h.take(); !slices.Equal(got, s.heard) {
						t.Errorf("after %q: %q, want %q", s.text, got, s.heard)
					}
				}
				l.stop()
			})
		})
	}
}

// TestLiveIsBounded: of a flood a part is passed on, and how much is not.
func TestLiveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heard
		l := &live{emit: h.add}
		const lines = 100_000
		for i := range lines / 100 {
			l.feed(stdout, []byte(strings.Repeat(fmt.Sprintf("line %d\n", i), 100)))
			if i%100 == 99 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		l.feed(stderr, []byte(strings.Repeat("x", 1<<20)))
		time.Sleep(time.Second)
		l.end(stdout)
		l.end(stderr)
		l.stop()
		got := h.take()
		shown, skipped, size := 0, 0, 0
		for _, text := range got {
			size += len(text)
			var n int
			if _, err := fmt.Sscanf(text, "o:[%d lines are not shown live]", &n); err == nil {
				skipped += n
			} else if strings.HasPrefix(text, "o:line") {
				shown++
			}
		}
		if shown+skipped != lines || shown > 3*liveLines || size > 4*liveBytes {
			t.Errorf("%d shown, %d skipped, %d bytes", shown, skipped, size)
		}
		l.feed(stdout, []byte("late\n"))
		if late := h.take(); len(late) > 0 {
			t.Errorf("after stop: %q", late)
		}
	})
}

// TestLiveCutsNoCharacter feeds more than a window takes, in pieces that end within characters.
func TestLiveCutsNoCharacter(t *testing.T) {
	line := strings.Repeat("é世🦆x", 1<<15)
	for _, size := range []int{3, 1023, 4099, 32<<10 + 1, 100_003} {
		synctest.Test(t, func(t *testing.T) {
			var h heard
			l := &live{emit: h.add}
			for range 3 {
				for piece := range slices.Chunk([]byte("\n"+line), size) {
					l.feed(stdout, piece)
				}
				time.Sleep(time.Second)
			}
			l.end(stdout)
			l.stop()
			for _, text := range h.take() {
				if strings.ContainsRune(text, utf8.RuneError) {
					t.Fatalf("pieces of %d bytes: a character is cut in %q … %q", size, text[:12], text[len(text)-12:])
				}
			}
		})
	}
}

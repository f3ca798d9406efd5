package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
)

// following is how long a test waits for what another goroutine appends.
const following = 30 * time.Second

// said reads what is new as the texts that a client is shown.
func said(t *testing.T, r *Reading) []string {
	t.Helper()
	var out []string
	for rec, err := range r.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, torn := rec.Body.(Unknown); torn {
			t.Errorf("read %q, which is no whole record", rec.Raw)
		}
		for _, u := range r.Updates(&rec) {
			var shown struct{ Content json.RawMessage }
			if err := json.Unmarshal(u, &shown); err != nil {
				t.Fatal(err)
			}
			out = append(out, acp.ParseContentBlock(acp.ContentBlock(shown.Content)).Text)
		}
	}
	return out
}

func readingOf(t *testing.T, texts ...string) (*Store, *Transcript) {
	t.Helper()
	store, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := store.Create(Header{SessionID: "loop-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	tell(t, tr, texts...)
	return store, tr
}

func tell(t *testing.T, tr *Transcript, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := tr.Append(Record{TurnID: "1", Body: Message{Role: RoleUser, Content: text}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A reading is where it was, whoever appends, and waits for more.
func TestReading(t *testing.T) {
	store, tr := readingOf(t, "one", "two")
	r, err := store.Read(t.Context(), "loop-1", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := said(t, r); !slices.Equal(got, []string{"one", "two"}) {
		t.Fatalf("read %q", got)
	}
	if got := said(t, r); got != nil {
		t.Fatalf("read %q again", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), following)
	defer cancel()
	waited := make(chan error, 1)
	go func() { waited <- r.Wait(ctx) }()
	tell(t, tr, "three")
	if err := <-waited; err != nil {
		t.Fatalf("waiting for the third message: %v", err)
	}
	if got := said(t, r); !slices.Equal(got, []string{"three"}) {
		t.Fatalf("read %q", got)
	}
	tell(t, tr, "four", "five")
	for rec, err := range r.Records(t.Context()) { // whoever stops goes on behind it
		if err != nil || rec.Body.(Message).Content != "four" {
			t.Fatalf("read %+v, %v", rec, err)
		}
		break
	}
	if got := said(t, r); !slices.Equal(got, []string{"five"}) {
		t.Fatalf("read %q", got)
	}
}

// With a limit the old is left out and what comes later is not.
func TestReadingLimited(t *testing.T) {
	store, tr := readingOf(t, "one", "two", "three")
	r, err := store.Read(t.Context(), "loop-1", 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := said(t, r); !slices.Equal(got, []string{"three"}) {
		t.Fatalf("read %q", got)
	}
	tell(t, tr, "four", "five")
	if got := said(t, r); !slices.Equal(got, []string{"four", "five"}) {
		t.Fatalf("read %q", got)
	}
}

// A line that is being written is read when it is whole, once.
func TestReadingTornLine(t *testing.T) {
	store, tr := readingOf(t, "one")
	r, err := store.Read(t.Context(), "loop-1", 0)
	if err != nil {
		t.Fatal(err)
	}
	said(t, r)
	f, err := os.OpenFile(store.path("loop-1"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := `{"type":"message","id":"x","role":"user","content":"two"}` + "\n"
	for _, piece := range []string{line[:20], line[20:]} {
		if got := said(t, r); got != nil {
			t.Fatalf("read %q of a line that is not whole", got)
		}
		if _, err := f.WriteString(piece); err != nil {
			t.Fatal(err)
		}
	}
	tell(t, tr, "three")
	if got := said(t, r); !slices.Equal(got, []string{"two", "three"}) {
		t.Fatalf("read %q", got)
	}
}

// Who follows a session that is deleted, or that never was, is told; waiting ends with its context.
func TestReadingEnds(t *testing.T) {
	store, tr := readingOf(t, "one")
	if _, err := store.Read(t.Context(), "nobody", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("reading what is not there: %v", err)
	}
	r, err := store.Read(t.Context(), "loop-1", 0)
	if err != nil {
		t.Fatal(err)
	}
	said(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a context that has ended: %v", err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), "loop-1"); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("waiting for a session that is gone: %v", err)
	}
	for _, err := range r.Records(t.Context()) {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("reading a session that is gone: %v", err)
		}
	}
}

// Reading along costs each record once, however often it is looked.
func TestReadingWhileWritten(t *testing.T) {
	store, tr := readingOf(t)
	r, err := store.Read(t.Context(), "loop-1", 0)
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	go func() {
		for i := range n {
			_ = tr.Append(Record{TurnID: "1", Body: Message{Role: RoleUser, Content: fmt.Sprint(i)}}) // what is missing fails the test
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), following)
	defer cancel()
	var got []string
	for len(got) < n {
		if err := r.Wait(ctx); err != nil {
			t.Fatalf("waiting for %d messages, %d are there: %v", n, len(got), err)
		}
		got = append(got, said(t, r)...)
	}
	for i, text := range got {
		if text != fmt.Sprint(i) {
			t.Fatalf("message %d is %q, in %s", i, text, strings.Join(got[max(0, i-3):i+1], " "))
		}
	}
}

// What is remembered of a turn's tool calls while it is replayed is bounded, however many
// there are and however long the ids that an agent gave them.
func TestReplayOfManyToolCalls(t *testing.T) {
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	call := func(r *replay, id string) {
		u := json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"t"}`)
		for _, u := range r.updates(&Record{TurnID: "t", Body: Update{Update: u}}) {
			if !r.show(u) {
				t.Fatalf("the call %s is not shown", id)
			}
		}
	}
	var r replay
	long, before := strings.Repeat("x", 8<<10), live()
	for i := range 10_000 {
		call(&r, long+strconv.Itoa(i))
	}
	if grown := int64(live() - before); grown > 16<<20 {
		t.Errorf("10,000 calls with ids of 8 KiB take %d MiB", grown>>20)
	}
	for i := range 1 << 16 {
		call(&r, strconv.Itoa(i))
	}
	if n := len(r.shown); n > 1<<16 {
		t.Errorf("%d calls are remembered", n)
	}
}

package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t testing.TB, o SpoolOptions) *Spool {
	t.Helper()
	if o.RunID == "" {
		o.RunID = "r"
	}
	s, err := OpenSpool(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func text(format string, args ...any) Event {
	return Event{Type: Text, Content: fmt.Sprintf(format, args...), Time: 1}
}

func add(t testing.TB, s *Spool, events ...Event) {
	t.Helper()
	if _, err := s.Append(events...); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}

// all reads everything after a number and wants it to be numbered without gaps.
func all(t testing.TB, s *Spool, after int64) []Event {
	t.Helper()
	r := s.Reader(after)
	defer func() { _ = r.Close() }()
	var out []Event
	for {
		some, err := r.Next(7, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			return out
		}
		for _, e := range some {
			if after++; e.Seq != after || e.RunID != "r" {
				t.Fatalf("event %d of %q where %d was to come", e.Seq, e.RunID, after)
			}
			out = append(out, e)
		}
	}
}

func TestSpoolKeepsAcrossFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, SpoolOptions{Dir: dir, Segment: 1000})
	for i := range 100 {
		add(t, s, text("%d", i))
	}
	for _, after := range []int64{0, 1, 50, 99, 100} {
		got := all(t, s, after)
		if len(got) != int(100-after) || len(got) > 0 && got[0].Content != fmt.Sprint(after) {
			t.Errorf("after %d there are %d events", after, len(got))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, SpoolOptions{Dir: dir, Segment: 1000})
	if s.Last() != 100 || len(all(t, s, 0)) != 100 {
		t.Errorf("opened again it ends with %d", s.Last())
	}
	add(t, s, text("more"))
	if got := all(t, s, 100); len(got) != 1 || got[0].Content != "more" {
		t.Errorf("after 100: %+v", got)
	}
}

// What somebody has is removed, and its numbers are not used again, whatever happens.
func TestSpoolRemovesWhatIsHad(t *testing.T) {
	dir := t.TempDir()
	s := open(t, SpoolOptions{Dir: dir, Segment: 500})
	for i := range 50 {
		add(t, s, text("%d", i))
	}
	before := files(t, dir)
	if err := s.Ack(49); err != nil {
		t.Fatal(err)
	}
	if n := files(t, dir); n >= before || n < 1 {
		t.Errorf("%d files of %d are left", n, before)
	}
	if err := s.Ack(1000); err != nil || s.Acked() != 50 {
		t.Errorf("acked %d, %v", s.Acked(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, SpoolOptions{Dir: dir, Segment: 500})
	add(t, s, text("next"))
	if s.Last() != 51 {
		t.Errorf("the next event has number %d, want 51", s.Last())
	}
	lost := all(t, s, 0) // somebody who has nothing is told what is missing
	if len(lost) != 51 || lost[0].Type != Error || lost[50].Content != "next" {
		t.Errorf("%d events, the first %+v", len(lost), lost[0])
	}
	empty := open(t, SpoolOptions{Dir: t.TempDir(), Last: 7})
	add(t, empty, text("x"))
	if empty.Last() != 8 {
		t.Errorf("after a lost spool the next event has number %d, want 8", empty.Last())
	}
}

func files(t testing.TB, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// A crash can leave anything after the last event that was safe.
func TestSpoolTornEnd(t *testing.T) {
	for name, torn := range map[string]string{
		"half a line":      `{"runId":"r","seq":4,"ty`,
		"zeroes":           strings.Repeat("\x00", 100),
		"zeroes and lines": strings.Repeat("\x00\n", 100),
		"no event":         `{"seq":0}` + "\n",
		"empty line":       "\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, SpoolOptions{Dir: dir})
			add(t, s, text("1"), text("2"), text("3"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			appendTo(t, filepath.Join(dir, segment{first: 1}.name()), torn)
			s = open(t, SpoolOptions{Dir: dir})
			add(t, s, text("4"))
			if got := all(t, s, 0); len(got) != 4 || got[2].Content != "3" || got[3].Content != "4" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func appendTo(t testing.TB, name, what string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(what)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A line that rotted is replaced by one that says so; the others keep their numbers.
func TestSpoolRottenLine(t *testing.T) {
	dir := t.TempDir()
	s := open(t, SpoolOptions{Dir: dir})
	add(t, s, text("one"), text("two"), text("three"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, segment{first: 1}.name())
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, bytes.Replace(data, []byte(`"content":"two"`), []byte(`"content":"t`+"\x01"+`o"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	got := all(t, open(t, SpoolOptions{Dir: dir}), 0)
	if len(got) != 3 || got[1].Type != Error || got[2].Content != "three" {
		t.Errorf("got %+v", got)
	}
}

// Readers follow while others write, and see whole events in order.
func TestSpoolReadWhileWritten(t *testing.T) {
	s := open(t, SpoolOptions{Dir: t.TempDir(), Segment: 4000, SyncEvery: time.Millisecond})
	const writers, each = 4, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := s.Append(text("%d/%d", w, i), text("twin")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r := s.Reader(0)
	defer func() { _ = r.Close() }()
	late := time.After(time.Minute)
	for seen := 0; seen < writers*each*2; {
		changed := s.Changed()
		some, err := r.Next(50, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range some {
			if seen++; e.Seq != int64(seen) || e.Type != Text || e.Content == "" {
				t.Fatalf("event %d is %+v", seen, e)
			}
		}
		if seen%10 == 0 {
			if err := s.Ack(int64(seen)); err != nil {
				t.Fatal(err)
			}
		}
		if len(some) == 0 {
			select {
			case <-changed:
			case <-late:
				t.Fatalf("%d events were seen, the spool has %d", seen, s.Last())
			}
		}
	}
	wg.Wait()
}

// Beyond its limit contents are left out, which is said, and beyond twice of it nothing
// more is taken.
func TestSpoolIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, SpoolOptions{Dir: dir, Segment: 2000, Limit: 10_000})
	var err error
	for range 10_000 {
		if _, err = s.Append(text("%s", strings.Repeat("x", 500))); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("it ended with %v", err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	got := all(t, s, 0)
	said := 0
	for _, e := range got {
		if e.Type == Error {
			said++
		}
	}
	last := got[len(got)-1]
	if said != 1 || last.Content != "" || !last.Truncated || last.Bytes != 500 {
		t.Errorf("said %d times; the last one is %+v", said, last)
	}
	if err := s.Ack(s.Last()); err != nil {
		t.Fatal(err)
	}
	add(t, s, text("again"))
	if got := all(t, s, s.Last()-1); got[0].Content != "again" {
		t.Errorf("got %+v", got)
	}
}

func TestSpoolClosed(t *testing.T) {
	s := open(t, SpoolOptions{Dir: t.TempDir()})
	add(t, s, text("x"))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(text("y")); !errors.Is(err, ErrSpoolClosed) {
		t.Errorf("got %v", err)
	}
}

// Whatever is in a file, opening works, what is appended comes last, and the numbers
// have no gaps.
func FuzzSpool(f *testing.F) {
	f.Add([]byte(`{"runId":"r","seq":1,"iterationId":0,"type":"text","summary":"","ts":1}`+"\n"), int64(0))
	f.Add([]byte("\n\n{\"seq\":3}\n{"), int64(9))
	f.Add(bytes.Repeat([]byte("a"), lineLimit+10), int64(1))
	f.Fuzz(func(t *testing.T, content []byte, last int64) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, segment{first: 1}.name()), content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, SpoolOptions{Dir: dir, Last: min(max(last, 0), 1000)})
		add(t, s, text("mine"))
		got := all(t, s, 0)
		if len(got) == 0 || int64(len(got)) != s.Last() || got[len(got)-1].Content != "mine" {
			t.Fatalf("%d events of %d", len(got), s.Last())
		}
	})
}

func BenchmarkSpoolAppend(b *testing.B) {
	s := open(b, SpoolOptions{Dir: b.TempDir()})
	e := text("%s", strings.Repeat("word ", 20))
	for b.Loop() {
		if _, err := s.Append(e); err != nil {
			b.Fatal(err)
		}
	}
}

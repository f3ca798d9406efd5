package sessions

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"gander.dev/gander/acp"
)

// Of those who ask for a transcript at the same time one reads it, and nobody reads it
// again who has only seen it when it was shorter.
func TestTranscriptIsReadOnce(t *testing.T) {
	s, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const id = "s-1"
	tr, err := s.Create(Header{SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.stat(id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		if err := tr.Append(Record{Body: Notice{Text: fmt.Sprint("words ", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := s.stat(id)
	if err != nil {
		t.Fatal(err)
	}
	s.index.entries = map[acp.SessionID]*entry{}
	var reads atomic.Int32
	var asking sync.WaitGroup
	for i := range 8 {
		seen := after
		if i%2 == 0 {
			seen = before
		}
		asking.Go(func() {
			e, read, err := s.freshEntry(t.Context(), seen)
			if err != nil {
				t.Error(err)
				return
			}
			if info, err := e.info(); err != nil || info.Records != 20_001 {
				t.Errorf("%d records, %v", info.Records, err)
			}
			if read {
				reads.Add(1)
			}
		})
	}
	asking.Wait()
	if n := reads.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
}

package sessions

import (
	"os"
	"strings"
	"testing"
)

// A full disk stops the transcript, for good and visibly.
func TestWriteError(t *testing.T) {
	s, err := Open(t.TempDir(), &Options{BufferBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	tr := s.start("s-1", full)
	if err := tr.Append(Record{Body: Notice{Text: "x"}}); err != nil {
		t.Fatal(err)
	}
	err = tr.Sync(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "writing transcript") {
		t.Fatalf("Sync = %v, want no space left", err)
	}
	for range 5 { // more than the buffer holds: nobody waits for a dead writer
		if again := tr.Append(Record{Body: Notice{Text: strings.Repeat("y", 100)}}); again != err {
			t.Errorf("Append = %v, want the same error", again)
		}
	}
	if tr.Err() != err || tr.Close() != err {
		t.Error("Err or Close forgot the error")
	}
}

// A transcript that would be too large stops before it is, and can be read and not gone on
// with; others go on.
func TestLargest(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, &Options{MaxBytes: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := s.Create(Header{SessionID: "s-1", WorkingPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		if err = tr.Append(Record{Body: Notice{Text: strings.Repeat("x", 1000)}}); err == nil {
			err = tr.Sync(t.Context())
		}
	}
	info, statErr := os.Stat(s.path(tr.ID()))
	if statErr != nil {
		t.Fatal(statErr)
	}
	if !strings.Contains(err.Error(), "go on in a new session") || info.Size() > 10_000 || info.Size() < 8_000 {
		t.Errorf("%d bytes, then %v", info.Size(), err)
	}
	_ = tr.Close()
	entries := 0
	for _, err := range s.Entries(t.Context(), tr.ID()) {
		if entries++; err != nil {
			t.Error(err)
		}
	}
	if entries < 8 {
		t.Errorf("%d records can be read", entries)
	}
	again, _, err := s.Resume(t.Context(), tr.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if err := again.Append(Record{Body: Notice{Text: strings.Repeat("x", 3000)}}); err == nil {
		err = again.Sync(t.Context())
		if err == nil {
			t.Error("it goes on")
		}
	}
}

// Sync means fsync, and believes it when it fails.
func TestSyncError(t *testing.T) {
	s, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe() // takes writes but cannot be synced
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tr := s.start("s-1", w)
	if err := tr.Append(Record{Body: Notice{Text: "x"}}); err != nil {
		t.Fatal(err)
	}
	err = tr.Sync(t.Context())
	if err == nil || !strings.Contains(err.Error(), "syncing transcript") {
		t.Errorf("Sync = %v, want what fsync said", err)
	}
	if tr.Close() != err {
		t.Error("Close forgot the error")
	}
}

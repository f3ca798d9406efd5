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

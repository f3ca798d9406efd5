package sessions_test

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gander.dev/gander/sessions"
)

// While the disk hangs, what waits for it is bounded, and nothing is lost after.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := openStore(t, t.TempDir(), &sessions.Options{BufferBytes: 10_000, Redact: func(line []byte) []byte {
			if bytes.Contains(line, []byte("notice")) {
				<-hold // the disk hangs
			}
			return line
		}})
		tr := create(t, s)
		const total = 1000
		var appended atomic.Int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for range total {
				if err := tr.Append(sessions.Record{Body: sessions.Notice{Text: "0123456789"}}); err != nil {
					t.Error(err)
				}
				appended.Add(1)
			}
		})
		synctest.Wait()
		if n := appended.Load(); n < 100 || n > 500 {
			t.Errorf("%d records of about 60 bytes were taken, want what fits into the buffer once or twice", n)
		}
		close(hold)
		wg.Wait()
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if n := len(readAll(t, s)); n != total+1 {
			t.Errorf("%d records, want %d", n, total+1)
		}
	})
}

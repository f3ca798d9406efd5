//go:build unix

package telemetry

import (
	"os"
	"syscall"
	"testing"
)

// A file of events that could not be begun, for want of descriptors, is begun at the next try.
func TestNoDescriptors(t *testing.T) {
	s := open(t, SpoolOptions{Dir: t.TempDir(), Segment: 64})
	add(t, s, text("fills the first file"))

	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 128
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	var taken []*os.File
	free := func() {
		for _, f := range taken {
			_ = f.Close()
		}
		taken = nil
	}
	defer free()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	last := len(taken) - 1
	_ = taken[last].Close() // one is there: for the file, not for its directory
	taken = taken[:last]

	if _, err := s.Append(text("lost")); err == nil {
		t.Fatal("without descriptors another file was begun")
	}
	free()
	add(t, s, text("kept"))
	if got := all(t, s, 0); len(got) != 2 || got[1].Content != "kept" {
		t.Errorf("the events are %+v", got)
	}
}

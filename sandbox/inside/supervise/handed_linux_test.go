package supervise

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// ownFiles takes what is handed over, as the supervisor would get it.
type ownFiles struct{ files map[uint64][]*os.File }

func (o *ownFiles) handOver(process uint64, files []*os.File) error {
	for _, f := range files {
		again, err := reopened(f)
		if err != nil {
			return err
		}
		o.files[process] = append(o.files[process], again)
	}
	return nil
}

func reopened(f *os.File) (*os.File, error) {
	fds, err := oneWay()
	if err != nil {
		return nil, err
	}
	in, out := socket(fds[0]), socket(fds[1])
	defer closeFiles(in, out)
	w := frameWriter{file: out}
	if err := w.send(struct{}{}, int(f.Fd())); err != nil {
		return nil, err
	}
	var none struct{}
	got, err := frameReader{in}.receive(&none)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(got[0]), "theirs"), nil
}

func handedRig(t *testing.T) (h *Host, s streams, in, out, errOut *os.File) {
	t.Helper()
	own := &ownFiles{files: map[uint64][]*os.File{}}
	h = &Host{files: own, reading: map[*output]struct{}{}, processes: map[uint64]*process{}}
	s, err := h.handOver(1, false)
	if err != nil {
		t.Fatal(err)
	}
	h.processes[1] = &process{host: h, id: 1, streams: s, gone: make(chan struct{})}
	theirs := own.files[1]
	t.Cleanup(func() { closeFiles(theirs...) })
	return h, s, theirs[0], theirs[1], theirs[2]
}

// What was written before the sandbox ended can be read; who outlives it and holds the
// pipe does not keep the reader, nor the writer.
func TestHandedStreamsEndWithTheSandbox(t *testing.T) {
	h, s, _, out, errOut := handedRig(t)
	ended := make(chan error, 2)
	go func() {
		got, err := io.ReadAll(s.out())
		if err == nil && string(got) != "abc" {
			err = errors.New("read " + string(got))
		}
		ended <- err
	}()
	go func() {
		_, err := s.in().Write(make([]byte, 2*bufferSize)) // more than the pipe holds
		if errors.Is(err, io.ErrClosedPipe) {
			err = nil
		} else {
			err = errors.Join(errors.New("the write ended otherwise"), err)
		}
		ended <- err
	}()
	for _, f := range []*os.File{out, errOut} {
		if _, err := f.WriteString("abc"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(20 * time.Millisecond) // both wait, most likely; they must end either way
	h.release()
	for range 2 {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a reader or writer waits for what is no sandbox any more")
		}
	}
	if got, err := io.ReadAll(s.err()); err != nil || string(got) != "abc" {
		t.Errorf("read %q, %v after the end", got, err)
	}
}

// Both directions carry what is written, and end.
func TestHandedStreams(t *testing.T) {
	_, s, in, out, _ := handedRig(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	go func() {
		_, _ = s.in().Write(data)
		_ = s.in().Close()
	}()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	got, err := io.ReadAll(s.out())
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(data), err)
	}
	if n, err := s.out().Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("reading behind the end: %d, %v", n, err)
	}
	_ = in.Close()
	if _, err := s.in().Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing to nobody: %v", err)
	}
}

package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"gander.dev/gander/sandbox"
)

func TestMain(m *testing.M) {
	beHelper()
	goleak.VerifyTestMain(m)
}

// fakePlatform starts nothing.
type fakePlatform struct{ shut chan struct{} }

func (f *fakePlatform) setup(Setup, events) ([]string, error) {
	return []string{"a warning"}, nil
}

func (f *fakePlatform) start(startParams, [3]*os.File) (tree, error) {
	return nil, &fs.PathError{Op: "exec", Path: "x", Err: fs.ErrPermission}
}
func (f *fakePlatform) live() (snapshot, error) { return snapshot{}, nil }
func (f *fakePlatform) killSince(context.Context, snapshot) (int, error) {
	return 2, errors.New("some live on")
}
func (f *fakePlatform) keeper() keeper { return nil }

func (f *fakePlatform) shutdown(context.Context) { close(f.shut) }

// serveFake serves one end of a pipe and returns the other.
func serveFake(t *testing.T, r rights) (net.Conn, *fakePlatform) {
	t.Helper()
	here, there := net.Pipe()
	f := &fakePlatform{shut: make(chan struct{})}
	s := &supervisor{platform: f, log: slog.New(slog.DiscardHandler), marks: map[sandbox.Mark]snapshot{}}
	done := make(chan struct{})
	go func() {
		_ = s.serve(there, r)
		close(done)
	}()
	t.Cleanup(func() {
		_ = here.Close()
		<-done
	})
	return here, f
}

func TestOwner(t *testing.T) {
	conn, f := serveFake(t, ownerRights)
	h, err := Dial(t.Context(), conn, Setup{Doors: []sandbox.Door{{Name: "d"}}})
	if err != nil {
		t.Fatal(err)
	}
	if w := h.Warnings(); len(w) != 1 || w[0] != "a warning" || !strings.HasPrefix(h.Doors()["d"], "127.0.0.1:") {
		t.Errorf("warnings %q, doors %q", w, h.Doors())
	}
	if _, err := h.Start(t.Context(), sandbox.Command{Args: []string{"x"}}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("start: %v, want a permission error", err)
	}
	m, err := h.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.KillSince(t.Context(), m); err == nil || !strings.Contains(err.Error(), "some live on") {
		t.Errorf("killSince: %v", err)
	}
	if _, err := h.KillSince(t.Context(), m+1); err == nil || !strings.Contains(err.Error(), "no such mark") {
		t.Errorf("unknown mark: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	<-f.shut // the owner's end is the end of everything
	<-h.Done()
	if _, err := h.Mark(t.Context()); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("after Close: %v", err)
	}
}

// A program inside cannot fill the log by connections that are not made.
func TestDoorThatIsClosed(t *testing.T) {
	conn, _ := serveFake(t, ownerRights)
	var log bytes.Buffer
	h, err := Dial(t.Context(), conn, Setup{
		Doors: []sandbox.Door{{Name: "d", Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("too many") }}},
		Log:   slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 120 {
		c, err := net.Dial("tcp", h.Doors()["d"])
		if err == nil { // or it was ended at once
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "\n"); n != 3 || !strings.Contains(log.String(), "too many") || !strings.Contains(log.String(), "times=100") {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// TestOwnRulesAfterEnd: that a sandbox has ended is nothing to warn of, whoever ended it.
func TestOwnRulesAfterEnd(t *testing.T) {
	for name, end := range map[string]func(*Host, net.Conn){
		"closed": func(h *Host, _ net.Conn) { _ = h.Close() },
		"killed": func(h *Host, conn net.Conn) { _ = conn.Close(); <-h.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			conn, _ := serveFake(t, ownerRights)
			h, err := Dial(t.Context(), conn, Setup{Log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			if err != nil {
				t.Fatal(err)
			}
			end(h, conn)
			h.passOwn(filepath.Join(t.TempDir(), "own"))
			_ = h.Close()
			if strings.Contains(said.String(), "your own rules") {
				t.Errorf("it is logged that %s", &said)
			}
		})
	}
}

// TestRights: a connection that may only run its own processes can do nothing else,
// and its end is not the sandbox's.
func TestRights(t *testing.T) {
	conn, f := serveFake(t, mayRun)
	if _, err := Dial(t.Context(), conn, Setup{}); err == nil || !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("setup: %v", err)
	}
	select {
	case <-f.shut:
		t.Error("everything was shut down")
	default:
	}
}

func TestMarksAreBounded(t *testing.T) {
	c := &client{supervisor: &supervisor{platform: &fakePlatform{}, marks: map[sandbox.Mark]snapshot{}}}
	for range maxMarks + 10 {
		if _, err := c.mark(struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.marks); n != maxMarks {
		t.Errorf("%d marks are kept, want %d", n, maxMarks)
	}
}

func TestDialGarbage(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		_, _ = there.Write([]byte(strings.Repeat("not the protocol\n", 10)))
		_ = there.Close()
	}()
	if _, err := Dial(t.Context(), here, Setup{}); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
}

func TestDialCancelled(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, here, Setup{}); err == nil {
		t.Error("a supervisor that does not answer was set up")
	}
}

func TestWireErrorKinds(t *testing.T) {
	for _, k := range errorKinds() {
		raw, err := json.Marshal(toWireError(&fs.PathError{Op: "open", Path: "p", Err: k.err}))
		if err != nil {
			t.Fatal(err)
		}
		var back wireError
		if err := json.Unmarshal(raw, &back); err != nil || !errors.Is(&back, k.err) {
			t.Errorf("%s became %v", raw, errors.Unwrap(&back))
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "data": 0o644} {
		if err := os.WriteFile(dir+"/"+name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, path, want string }{
		{"tool", dir, dir + "/tool"},
		{"tool", "/no:" + dir, dir + "/tool"},
		{"tool", ".", dir + "/tool"},
		{"./tool", "", "./tool"},
		{"data", dir, ""},
		{"tool", "", ""},
	} {
		got, err := lookPath(tt.name, []string{"PATH=/wrong", "PATH=" + tt.path}, dir)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s in %q: %q %v, want %q", tt.name, tt.path, got, err, tt.want)
		}
	}
}

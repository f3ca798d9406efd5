package shell_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/developer/shell"
)

// env is a small environment to run in.
func env(more ...string) []string {
	return append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent"}, more...)
}

// quiet is a logger for tests of which nobody reads the log.
var quiet = slog.New(slog.DiscardHandler)

func newRunner(t testing.TB, o shell.Options) *shell.Runner {
	t.Helper()
	if o.Env == nil {
		o.Env = env()
	}
	if o.SpoolDir == "" {
		o.SpoolDir = t.TempDir()
	}
	if o.WorkingDir == "" {
		o.WorkingDir = t.TempDir()
	}
	if o.Log == nil && testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	r, err := shell.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func run(t testing.TB, r *shell.Runner, c shell.Command) shell.Result {
	t.Helper()
	res, err := r.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Line, err)
	}
	return res
}

func TestRun(t *testing.T) {
	r := newRunner(t, shell.Options{})
	tests := []struct {
		name, line, shown string
		code              int
		signal            string
	}{
		{"output", "printf 'a\\nb\\n'", "a\nb\n", 0, ""},
		{"a last line without an end", "printf a", "a\n", 0, ""},
		{"nothing", "true", "", 0, ""},
		{"exit code", "echo x; exit 3", "x\n", 3, ""},
		{"signal", "kill -9 $$", "", 137, "KILL"},
		{"both streams", "echo out; sleep 0.05; echo err >&2; sleep 0.05; echo out", "out\nerr\nout\n", 0, ""},
		{"lines are not cut by the other stream", "printf a; sleep 0.05; echo err >&2; sleep 0.05; echo b", "err\nab\n", 0, ""},
		{"stdin is the null device", "cat; test -c /dev/stdin && echo device", "device\n", 0, ""},
		{"no terminal", "tty </dev/stdin >/dev/null || echo none; (: </dev/tty) 2>/dev/null || echo none", "none\nnone\n", 0, ""},
		{"bytes that are no text", `printf 'a\377\376b\n'`, "a\uFFFDb\n", 0, ""},
		{"not found", "no-such-program 2>/dev/null", "", 127, ""},
		{"many lines within the limit", "seq 100", seq(1, 100), 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := run(t, r, shell.Command{Line: tt.line})
			if res.Merged.Shown != tt.shown || res.Code != tt.code || res.Signal != tt.signal {
				t.Errorf("got %q, code %d %q; want %q, code %d %q", res.Merged.Shown, res.Code, res.Signal, tt.shown, tt.code, tt.signal)
			}
			if res.Merged.Cut || res.Merged.File != "" || res.TimedOut || !res.Drained || len(res.Left) > 0 {
				t.Errorf("%+v", res)
			}
		})
	}
}

func seq(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		b.WriteString(itoa(i) + "\n")
	}
	return b.String()
}

func TestDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, shell.Options{WorkingDir: dir})
	for given, want := range map[string]string{"": dir, "sub": dir + "/sub", dir + "/sub": dir + "/sub"} {
		if got := run(t, r, shell.Command{Line: "pwd", Dir: given}).Merged.Shown; got != want+"\n" {
			t.Errorf("in %q: %q, want %q", given, got, want)
		}
	}
	if err := os.WriteFile(dir+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"missing", "file"} {
		_, err := r.Run(t.Context(), shell.Command{Line: "pwd", Dir: bad})
		if _, ok := errors.AsType[*shell.SpawnError](err); !ok || !strings.Contains(err.Error(), dir+"/"+bad) {
			t.Errorf("in %q: %v", bad, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	r := newRunner(t, shell.Options{})
	res := run(t, r, shell.Command{Line: "echo before; sleep 600 & sleep 600", Timeout: 3 * time.Second})
	if !res.TimedOut || res.Merged.Shown != "before\n" || len(res.Left) > 0 {
		t.Errorf("%+v", res)
	}
}

func TestCancelBeforeAndDuringStart(t *testing.T) {
	r := newRunner(t, shell.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, shell.Command{Line: "sleep 600"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestClosed(t *testing.T) {
	r := newRunner(t, shell.Options{})
	run(t, r, shell.Command{Line: "true"})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), shell.Command{Line: "true"}); !errors.Is(err, shell.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// TestCloseEndsWhatRuns: the answer to a running call is the closing.
func TestCloseEndsWhatRuns(t *testing.T) {
	mark := newMark()
	r := newRunner(t, shell.Options{Env: env(mark)})
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), shell.Command{Line: "sleep 600 & setsid sleep 600 & sleep 600"})
		done <- err
	}()
	eventually(t, "it runs", func() bool { return len(marked(mark)) >= 3 })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := <-done; !errors.Is(err, shell.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

package shell_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/developer/shell"
)

// cmdRunner runs commands in cmd, which is everywhere.
func cmdRunner(t *testing.T) (*shell.Runner, string) {
	dir, err := os.MkdirTemp("", "shell")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // which wine refuses
	env := append(os.Environ(), "MARK=here", beatEnv+"="+filepath.Join(dir, "beats"))
	return newRunner(t, shell.Options{Shells: []string{"cmd"}, WorkingDir: dir, SpoolDir: dir, Env: env}), dir
}

func TestCmd(t *testing.T) {
	r, dir := cmdRunner(t)
	for _, tt := range []struct {
		name, line, shown string
		code              int
	}{
		{"output", "echo a", "a", 0},
		{"quotes", `echo "a b" & echo c`, "\"a b\"\nc", 0},
		{"lines", "echo a\r\necho b", "a\nb", 0},
		{"exit code", "exit 3", "", 3},
		{"variables", "echo %MARK%", "here", 0},
		{"directory", "cd", dir, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := run(t, r, shell.Command{Line: tt.line})
			var lines []string
			for l := range strings.Lines(res.Merged.Shown) {
				lines = append(lines, strings.TrimSpace(l))
			}
			if got := strings.Join(lines, "\n"); !strings.EqualFold(got, tt.shown) || res.Code != tt.code {
				t.Errorf("got %q, code %d; want %q, code %d", got, res.Code, tt.shown, tt.code)
			}
		})
	}
}

// beats is a program below another one below cmd, which writes to a file as long as
// it lives.
func beats(t *testing.T, dir string) (line string, alive func() bool) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		st, err := os.Stat(filepath.Join(dir, "beats"))
		if err != nil {
			return 0
		}
		return st.Size()
	}
	return `echo ready & "` + exe + `"`, func() bool {
		before := size()
		time.Sleep(2 * time.Second)
		return size() > before
	}
}

// TestTreeDies: cancel and the end of the Runner take the whole tree.
func TestTreeDies(t *testing.T) {
	for _, how := range []string{"cancel", "close", "timeout"} {
		t.Run(how, func(t *testing.T) {
			r, dir := cmdRunner(t)
			line, alive := beats(t, dir)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				c := shell.Command{Line: line}
				if how == "timeout" {
					c.Timeout = 10 * time.Second
				}
				_, err := r.Run(ctx, c)
				done <- err
			}()
			eventually(t, "it beats", alive)
			switch how {
			case "cancel":
				cancel()
			case "close":
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-done; how == "cancel" && !errors.Is(err, context.Canceled) || how == "timeout" && err != nil {
				t.Errorf("got %v", err)
			}
			if alive() {
				t.Error("it still beats")
			}
		})
	}
}

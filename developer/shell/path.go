package shell

import (
	"context"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
)

// probeTime is how long the login shell has to say its PATH. Profiles do anything,
// also wait for somebody.
const probeTime = 5 * time.Second

// pathMark stands around the PATH in the probe's output: profiles print too.
const pathMark = "--gander-path--"

// loginPath is the PATH of the login shell, asked for once.
type loginPath struct {
	once  sync.Once
	value string
}

// get gives the login shell's PATH, and nothing when it is not wanted or could not
// be had. It has no terminal, and is held and ended like any command.
func (l *loginPath) get(ctx context.Context, r *Runner) string {
	if !r.o.LoginPath || runtime.GOOS == "windows" {
		return ""
	}
	l.once.Do(func() {
		begin := time.Now()
		l.value = probePath(ctx, r)
		r.log.Info("the login shell was asked for PATH", "shell", r.shell.kind, "found", l.value != "", "duration", time.Since(begin))
	})
	return l.value
}

func probePath(ctx context.Context, r *Runner) string {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	p, room, err := r.place.start(ctx, sandbox.Command{
		Args: []string{r.shell.Path, "-l", "-i", "-c", probeLine(r.shell.kind)},
		Env:  r.environment(Command{}, ""), Dir: r.o.WorkingDir, NullStdin: true,
	})
	if err != nil {
		return ""
	}
	defer r.place.leave(room)
	found := make(chan string, 1)
	r.readers.Go(func() {
		text, _ := io.ReadAll(io.LimitReader(p.Stdout(), 1<<20))
		found <- betweenMarks(string(text))
		_, _ = io.Copy(io.Discard, p.Stdout())
	})
	r.readers.Go(func() { _, _ = io.Copy(io.Discard, p.Stderr()) })
	_, _ = p.Wait(ctx)
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer stop()
	_ = p.End(end, 0)
	select {
	case path := <-found:
		return path
	case <-end.Done():
		return ""
	}
}

// probeLine prints PATH between marks, on lines of their own.
func probeLine(kind string) string {
	value := `"$PATH"`
	if kind == "fish" { // where it is a list
		value = `(string join : $PATH)`
	}
	return "echo; echo " + pathMark + "; echo " + value + "; echo " + pathMark
}

// betweenMarks finds what stands between the last two marks.
func betweenMarks(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	for i := len(lines) - 1; i >= 2; i-- {
		if lines[i] == pathMark && lines[i-2] == pathMark {
			return strings.TrimSpace(lines[i-1])
		}
	}
	return ""
}

package shell_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/developer/shell"
	"gander.dev/gander/sandbox/inside/supervise"
)

// TestLeft: what a command starts in the background runs on, is named, can be read and
// killed, and ends with the Runner.
func TestLeft(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		drained    bool
	}{
		{"holds the streams", "sleep 600 & echo started", false},
		{"holds nothing", "sleep 600 </dev/null >/dev/null 2>&1 & echo started", true},
		{"daemon", "(setsid sleep 600 </dev/null >/dev/null 2>&1 &) ; echo started", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mark := newMark()
			r := newRunner(t, shell.Options{Env: env(mark)})
			res := run(t, r, shell.Command{Line: tt.line})
			if res.Merged.Shown != "started\n" || res.Drained != tt.drained {
				t.Errorf("%+v", res)
			}
			// A subshell or setsid that is about to become sleep may be seen too.
			known := func(p supervise.Member) bool {
				return slices.ContainsFunc([]string{"sleep", "bash", "setsid"}, func(name string) bool { return strings.Contains(p.Name, name) })
			}
			if !slices.ContainsFunc(res.Left, known) {
				t.Errorf("left: %+v", res.Left)
			}
			// It has no environment for the moment of its exec.
			eventually(t, "the background process is seen to run on", func() bool { return len(marked(mark)) > 0 })
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if left := marked(mark); len(left) > 0 {
				t.Errorf("left after Close: %v", left)
			}
		})
	}
}

// TestLeftGoesOn: what a background process prints later is in the file.
func TestLeftGoesOn(t *testing.T) {
	dir := t.TempDir()
	r := newRunner(t, shell.Options{WorkingDir: dir, Drain: time.Millisecond})
	res := run(t, r, shell.Command{Line: "(echo early; while [ ! -e go ]; do sleep 0.01; done; echo late; sleep 600) & sleep 0.1", SessionID: "s"})
	if res.Drained || res.Merged.Shown != "early\n" || res.Merged.File == "" || res.LeftID == "" {
		t.Fatalf("%+v", res)
	}
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the late line is in the file", func() bool {
		text, err := os.ReadFile(res.Merged.File)
		return err == nil && string(text) == "early\nlate\n"
	})
	j, err := r.Job("s", res.LeftID)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Text(shell.Limits{}).Shown; got != "early\nlate\n" {
		t.Errorf("the job's text is %q", got)
	}
	if i := j.Info(t.Context()); !i.Running || !i.Exited || i.Code != 0 || len(i.Members) == 0 {
		t.Errorf("%+v", i)
	}
	if err := j.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i := j.Info(t.Context()); i.Running || len(i.Members) > 0 {
		t.Errorf("after Kill: %+v", i)
	}
}

func TestJobs(t *testing.T) {
	mark := newMark()
	r := newRunner(t, shell.Options{Env: env(mark)})
	start := func(c shell.Command) *shell.Job {
		t.Helper()
		j, err := r.Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	brief := start(shell.Command{Line: "seq 200; exit 4", SessionID: "a"})
	if err := brief.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i := brief.Info(t.Context()); i.Running || !i.Exited || i.Code != 4 || i.Line != "seq 200; exit 4" {
		t.Errorf("%+v", i)
	}
	if text := brief.Text(shell.Limits{}); !text.Cut || text.Lines != 200 || text.FirstLine != 101 {
		t.Errorf("%+v", text)
	}
	if got, err := brief.Lines(7, 9, 1000); got != "7\n8\n9" || err != nil {
		t.Errorf("lines 7 to 9: %q %v", got, err)
	}
	long := start(shell.Command{Line: "printf partial; sleep 600", SessionID: "a"})
	eventually(t, "it has printed", func() bool { return long.Text(shell.Limits{}).Shown == "partial" })
	limited := start(shell.Command{Line: "sleep 600", SessionID: "a", Timeout: 50 * time.Millisecond})
	if err := limited.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Job("b", long.ID()); !errors.Is(err, shell.ErrNoJob) {
		t.Errorf("another session's job: %v", err)
	}
	if jobs := r.Jobs("a"); len(jobs) != 3 || jobs[1] != long {
		t.Errorf("jobs: %v", jobs)
	}
	eventually(t, "the long job is seen to run", func() bool { return len(marked(mark)) > 0 })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestJobsAreForgotten: those that have ended do not pile up.
func TestJobsAreForgotten(t *testing.T) {
	r := newRunner(t, shell.Options{})
	for range 80 {
		j, err := r.Start(t.Context(), shell.Command{Line: "true"})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.Jobs("")); n < 60 || n > 70 {
		t.Errorf("%d jobs are remembered", n)
	}
}

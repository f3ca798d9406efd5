package show

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// On a terminal there is one line that changes; when the work fails, the last of
// what it said comes after it.
func TestProgressOnATerminal(t *testing.T) {
	var out strings.Builder
	p := &Progress{label: "building", out: &out, terminal: true, width: 40, began: time.Now().Add(-90 * time.Second), estimate: 2 * time.Minute, stop: make(chan struct{})}
	for i := range 2 * progressLines {
		fmt.Fprintf(p, "step %d of a work that says a lot\n", i)
	}
	fmt.Fprint(p, "half a \x1b[31mline")
	p.tick()
	if got, want := out.String(), "\r\x1b[Kbuilding … 1m30s of about 2m0s  step 79"; got != want {
		t.Errorf("shown is %q, want %q", got, want)
	}
	out.Reset()
	broken := errors.New("broken")
	if err := p.End(broken); err != broken {
		t.Errorf("the error became %v", err)
	}
	got := out.String()
	if !strings.HasPrefix(got, "\r\x1b[Kstep 40 of") || !strings.Contains(got, "step 79") || !strings.Contains(got, "half a") || strings.Contains(got, "\x1b[31m") {
		t.Errorf("after the failure: %q", got)
	}
}

func TestProgressElsewhere(t *testing.T) {
	var out strings.Builder
	a := &cli.App{Stdio: cli.Stdio{Err: &out}}
	p := Watch(a, "building", 20*time.Second)
	p.began = p.began.Add(-time.Minute)
	fmt.Fprintln(p, "step 1")
	p.tick()
	if err := p.End(nil); err != nil {
		t.Error(err)
	}
	want := "building … about 20s\nstep 1\n… still building, 1m0s, longer than the usual 20s\nbuilding: done after 1m0s\n"
	if got := out.String(); got != want {
		t.Errorf("shown is %q, want %q", got, want)
	}
}

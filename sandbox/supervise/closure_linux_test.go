package supervise

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/enforce"
)

// The person's own rules hold, and rules files are for reading.
func TestClosureKeepsOwnRules(t *testing.T) {
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &linux{log: slog.New(slog.DiscardHandler), pid: os.Getpid()}
	c, err := l.newClosure(Rules{Trees: []string{tree}, Own: "*.mine\n", HasOwn: true}, func(sandbox.Denial) {})
	if err != nil {
		if os.Getenv("GANDER_CHECK") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	defer func() {
		_ = c.watcher.Close()
		c.guard.Close()
	}()
	now, err := c.newPolicy(tree, l.log)
	if err != nil {
		t.Fatal(err)
	}
	for rel, want := range map[string]enforce.Access{
		"a.mine": enforce.None, "sub/b.mine": enforce.None, "open": enforce.Full, ".env": enforce.Full,
		".gooseignore": enforce.ReadOnly, "sub/.gooseignore": enforce.ReadOnly,
	} {
		if got := now().Access(rel, false); got != want {
			t.Errorf("%s: %v, want %v", rel, got, want)
		}
	}
}

// One path and operation is passed on once, and all together a bounded number.
func TestDenialsAreBounded(t *testing.T) {
	told := make(chan sandbox.Denial, 1000)
	n := newDenials(func(d sandbox.Denial) { told <- d })
	for i := range 500 {
		n.add(sandbox.Denial{Operation: "open", Path: filepath.Join("/p", string(rune('a'+i%100))), PID: i})
	}
	for range denialsInAll {
		<-told
	}
	select {
	case d := <-told:
		t.Errorf("more than %d were told: %+v", denialsInAll, d)
	default:
	}
}

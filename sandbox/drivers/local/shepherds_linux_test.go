package local_test

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// A command whose shepherd dies ends, and all it started, and nothing else does, whoever
// started the shepherds: the first one's parent is the supervisor, as is that of what has
// lost its shepherd.
func TestShepherdDies(t *testing.T) {
	for name, newDriver := range map[string]sandboxtest.NewDriver{"local": newLocal, "off": newOff} {
		t.Run(name, func(t *testing.T) {
			sb := sandboxtest.Create(t, newDriver(t), sandbox.Spec{ID: "shepherds", WorkingDir: t.TempDir()})
			first, later := dying(t, sb), dying(t, sb)
			for i, c := range []struct{ dies, lives *command }{{later, first}, {first, dying(t, sb)}} {
				c.dies.say(t, "die")
				sandboxtest.Wait(t, c.dies.Process)
				sandboxtest.Eventually(t, "all of it is gone", 20*time.Second, func() bool { return len(sandboxtest.Survivors(c.dies.mark)) == 0 })
				if c.lives.say(t, "again"); c.lives.hear(t) != "again" {
					t.Errorf("%d: another command does not go on", i)
				}
			}
		})
	}
}

// command is a shell that repeats what it is told, until it kills its shepherd.
type command struct {
	sandbox.Process
	mark string
	out  *bufio.Reader
}

func dying(t *testing.T, sb sandbox.Sandbox) *command {
	t.Helper()
	c := &command{mark: sandboxtest.Mark()}
	c.Process = sandboxtest.Start(t, sb, `setsid sleep 1000 & sleep 1000 & echo ready
		while read -r line; do [ "$line" = die ] && kill -9 $PPID; echo "$line"; done`, c.mark)
	c.out = bufio.NewReader(c.Stdout())
	if got := c.hear(t); got != "ready" {
		t.Fatalf("it said %q", got)
	}
	return c
}

func (c *command) say(t *testing.T, line string) {
	t.Helper()
	if _, err := c.Stdin().Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

func (c *command) hear(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(line)
}

package keeper

import (
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// TestGrowing checks that parts of a message are shown and not kept, that what there is of one
// is kept when the loop dies in it, and that the canaries look at parts.
func TestGrowing(t *testing.T) {
	part := func(offset int, text string) loop.Output {
		return loop.Output{Growing: &telemetry.Growth{Iteration: 1, Type: telemetry.Text, Offset: offset, Content: text}}
	}
	first := true
	r := newRig(t, func(l *fakeLoop) {
		if _, ok := l.until(loop.CommandStart); !ok || !first {
			_, _ = l.until("never")
			return
		}
		first = false
		l.say(begin(1))
		_, _ = l.until(loop.CommandBegin)
		l.line(part(0, "whole "))
		l.line(part(6, "message"))
		l.say(telemetry.Event{Type: telemetry.Text, Iteration: 1, Content: "whole message"})
		l.line(part(0, "it is "))
		l.line(part(6, leakToken))
		l.line(part(0, "half "))
		l.line(part(99, "from nowhere "))
		l.line(part(5, "a message"))
		_, _ = l.until("never")
	})
	r.watch(confine.CanariesShow)
	r.terms.canaries = confine.CanariesStop
	r.start()
	shown := func() string {
		r.plane.mu.Lock()
		defer r.plane.mu.Unlock()
		return strings.Join(r.plane.grown, "")
	}
	await(t, "what is shown", func() bool { return strings.HasSuffix(shown(), "a message") })
	if strings.Contains(shown(), leakToken) || strings.Contains(shown(), "nowhere") {
		t.Errorf("shown is %q", shown())
	}
	r.driver.last().loop.die(1)
	await(t, "the end of the iteration", func() bool {
		return r.plane.count(func(e telemetry.Event) bool { return e.Type == telemetry.IterationEnd }) == 1
	})
	var texts []string
	for _, e := range r.contiguous() {
		if e.Type == telemetry.Text {
			texts = append(texts, e.Content)
		}
	}
	if got := fmt.Sprintf("%q", texts); got != `["whole message" "half a message"]` {
		t.Errorf("kept is %s", got)
	}
}

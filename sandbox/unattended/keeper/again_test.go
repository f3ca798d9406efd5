package keeper

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// An iteration runs when the sandbox was looked at again, and the person learns what was
// found. Where that has failed none runs, and there is another sandbox.
func TestAgain(t *testing.T) {
	ran := make(chan int64, 10)
	r := newRig(t, func(l *fakeLoop) {
		start, _ := l.until(loop.CommandStart)
		for n := int64(1); start.Start != nil && start.Start.Admitted; n++ {
			l.say(begin(n))
			if _, ok := l.until(loop.CommandBegin); !ok {
				return
			}
			ran <- n
			l.say(end(n))
		}
	})
	looked := make(chan error)
	r.o.Again = func(ctx context.Context) ([]string, error) {
		select {
		case err := <-looked:
			return []string{"something was found"}, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.start()
	await(t, "the first iteration", func() bool { return r.plane.count(isBegin) == 1 })
	select {
	case n := <-ran:
		t.Errorf("iteration %d runs before anybody has looked", n)
	case <-time.After(50 * time.Millisecond):
	}
	looked <- nil
	if n := <-ran; n != 1 {
		t.Errorf("iteration %d ran", n)
	}
	await(t, "what was found", func() bool {
		return r.plane.count(func(e telemetry.Event) bool {
			return e.Type == Notice && strings.Contains(e.Content, "something was found")
		}) == 1
	})
	looked <- errors.New("it went wrong")
	looked <- nil // of another sandbox, whose loop counts anew
	if n := <-ran; n != 1 {
		t.Errorf("iteration %d ran after one that was refused", n)
	}
	r.stop() // while it looks
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	r.contiguous()
}

package keeper

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine/confinetest"
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
	rules := &askedRules{Sandbox: &confinetest.Sandbox{Dir: t.TempDir(), Log: t.Logf}, looked: make(chan error)}
	looked := rules.looked
	r.driver.rules = rules
	r.driver.fails = func(int) error { rules.examined.Store(false); return nil }
	r.terms.rules = &sandbox.Rules{Optional: true}
	r.start()
	await(t, "the first iteration", func() bool { return r.plane.count(isBegin) == 1 })
	select {
	case n := <-ran:
		t.Errorf("iteration %d runs before anybody has looked", n)
	case <-time.After(50 * time.Millisecond):
	}
	looked <- errors.New("something was found")
	if n := <-ran; n != 1 {
		t.Errorf("iteration %d ran", n)
	}
	await(t, "what was found", func() bool {
		return r.plane.count(func(e telemetry.Event) bool {
			return e.Type == Notice && strings.Contains(e.Content, "something was found")
		}) == 1
	})
	await(t, "the second iteration", func() bool { return r.plane.count(isBegin) == 2 })
	r.terms.rules = &sandbox.Rules{}
	_ = r.driver.last().Close()
	looked <- nil                         // of the one that is gone
	looked <- errors.New("it went wrong") // in one that may not be weaker
	looked <- nil                         // of another sandbox, whose loop counts anew
	if n := <-ran; n != 1 {
		t.Errorf("iteration %d ran after one that was refused", n)
	}
	r.stop() // while it looks
	if err := r.gone(); err != nil {
		t.Fatal(err)
	}
	r.contiguous()
}

// askedRules look at once when a sandbox was made, and then when the test says what is found.
type askedRules struct {
	*confinetest.Sandbox
	examined atomic.Bool
	looked   chan error
}

func (r *askedRules) ProtectNamed(ctx context.Context) (found sandbox.Repositories, err error) {
	if r.examined.CompareAndSwap(false, true) {
		return found, nil
	}
	select {
	case err = <-r.looked:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return found, err
}

package local_test

import (
	"context"
	"testing"
	"time"

	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// A sandbox whose making is given up at any moment is gone at once: the launcher
// may have been killed while the supervisor waits for it.
func TestCreateGivenUp(t *testing.T) {
	d := newLocal(t)
	for wait := time.Millisecond; wait < 40*time.Millisecond; wait += time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		began := time.Now()
		sb, err := d.Create(ctx, sandboxtest.Spec(t, -1))
		if err == nil {
			err = sb.Close()
		}
		cancel()
		if took := time.Since(began) - wait; took > 3*time.Second {
			t.Fatalf("given up after %v, it took %v more: %v", wait, took, err)
		}
	}
}

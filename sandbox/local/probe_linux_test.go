package local_test

import (
	"os"
	"testing"

	"gander.dev/gander/sandbox/sandboxtest"
)

// TestProbe runs every attempt to get out that we know.
func TestProbe(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for whose, owner := range owners() {
		t.Run(whose, func(t *testing.T) { sandboxtest.TestProbe(t, newLocal, self, owner) })
	}
}

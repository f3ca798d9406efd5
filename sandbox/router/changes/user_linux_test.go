package changes_test

import (
	"testing"

	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// TestAsOrdinaryUser runs the tests about what cannot be listed or written, which root can.
func TestAsOrdinaryUser(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^(TestLinksOfWhatIsNotListedAreNotKept|TestWhatATurnShutIsNotCompared|TestAFileThatATurnShutStays|TestUndo.*|TestACrashInAnUndoIsMended)$"})
}

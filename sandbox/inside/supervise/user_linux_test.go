package supervise

import (
	"testing"

	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// TestAsOrdinaryUser runs the tests about what cannot be read, which root can.
func TestAsOrdinaryUser(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^(TestGitPlacesUnread|TestRepositoriesCannotBeHidden|TestLeasedConfiguration)$"})
}

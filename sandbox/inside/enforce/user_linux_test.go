package enforce

import (
	"testing"

	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// TestEnforcesOrdinaryUser runs what a Guard is to do where a user without rights has made
// it. Most of it is waiting, so that its two parts are run beside each other.
func TestEnforcesOrdinaryUser(t *testing.T) {
	for name, tests := range map[string]string{
		"uses": "^TestUses$",
		"attacks": "^(TestAttacks|TestChanges|TestSameAsKernel|TestFIFOs|TestFIFOsOfTheDead|TestSignals|TestClimbing|TestHostReplaces|" +
			"TestPolicyChanges|TestOutsideSocket|TestMovedTree|TestOtherProcesses)$",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			usertest.Run(t, usertest.Options{Tests: tests})
		})
	}
}

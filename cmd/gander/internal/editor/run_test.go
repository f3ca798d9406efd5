package editor

import (
	"testing"

	"gander.dev/gander/acp"
)

func TestStopErrors(t *testing.T) {
	for reason, bad := range map[acp.StopReason]bool{
		acp.StopEndTurn: false, acp.StopMaxTokens: true, acp.StopMaxTurnRequests: true, acp.StopRefusal: true,
	} {
		if got := stopError(reason) != nil; got != bad {
			t.Errorf("%s: an error is %v", reason, got)
		}
	}
}

package keeper

import (
	"slices"

	"gander.dev/gander/sandbox/unattended/loop"
)

// saved is what the next loop of the run is to know: the content of state/loop.json.
type saved struct {
	// Saved is what the last one wanted remembered.
	loop.Saved
	// Unheard are messages of the operator that it does not count in Saved.Heard. It was
	// told of them, or there was none.
	Unheard []string `json:"unheard,omitempty"`
}

// take puts what a loop wants remembered in the place of what was. Where an order has not
// reached the loop yet, what orders change stays as the person wants it.
func (s *saved) take(now loop.Saved, ordered bool) {
	if ordered {
		now.Paused, now.Reason, now.Failures = s.Paused, s.Reason, s.Failures
	}
	if now.Heard > s.Heard {
		s.Unheard = s.Unheard[min(now.Heard-s.Heard, int64(len(s.Unheard))):]
	}
	now.Heard = max(now.Heard, s.Heard)
	s.Saved = now
}

// forStart is what a loop starts with.
func (s *saved) forStart() loop.Saved {
	with := s.Saved
	with.Messages = slices.Concat(s.Messages, s.Unheard)
	with.Heard += int64(len(s.Unheard))
	return with
}

// save keeps what is saved for the next keeper; mu is held.
func (k *keeper) save() error { return writeJSON(k.state("loop.json"), k.saved) }

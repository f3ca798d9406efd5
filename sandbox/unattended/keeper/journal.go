package keeper

// journal is what a keeper must know of its run that the events do not say when
// they are sent and gone. It is written before the event that it is about: an event
// whose number was never reached has not happened.
type journal struct {
	// Iteration is the last one that began, with the event Began. It has ended with
	// the event Ended, or not yet when that is 0.
	Iteration int64 `json:"iteration"`
	Began     int64 `json:"began"`
	Ended     int64 `json:"ended,omitempty"`
	// State is what the last event about the loop's state said.
	State string `json:"state,omitempty"`
	// Stated is the number of that event.
	Stated int64 `json:"stated,omitempty"`
	// Made is how many sandboxes were made.
	Made int `json:"made"`
}

// settle takes back what a crash kept from happening, when last is the number of the
// last event.
func (j *journal) settle(last int64) {
	if j.Stated > last {
		j.State, j.Stated = "", 0
	}
	if j.Ended > last {
		j.Ended = 0
	}
	if j.Began > last { // the iteration before had ended
		j.Iteration, j.Began, j.Ended = max(0, j.Iteration-1), last, last
	}
}

// open reports whether an iteration has begun and not ended.
func (j *journal) open() bool { return j.Began > 0 && j.Ended == 0 }

// final reports whether a state is the last one of a run.
func final(state string) bool {
	switch state {
	case "stopped", "done", "failed":
		return true
	}
	return false
}

package gateway

import (
	"sync"
	"time"
)

// Kind says what an Event is about.
type Kind string

// The kinds. Started is the first event of a request and exactly one of the
// others is its last. Refused mostly has no Started before it.
const (
	Started     Kind = "started"
	Finished    Kind = "finished"     // the endpoint answered 2xx, all of it was passed on
	Refused     Kind = "refused"      // not allowed out: 400, 401, 402, 403, or 413
	BadKey      Kind = "bad_key"      // the endpoint answered 401 or 403
	NotFound    Kind = "not_found"    // the endpoint answered 404
	RateLimited Kind = "rate_limited" // the endpoint answered 429
	ServerError Kind = "server_error" // the endpoint answered 5xx
	Rejected    Kind = "rejected"     // the endpoint answered another 4xx, or something unusable
	Unreachable Kind = "unreachable"  // no answer: name, network, proxy
	Untrusted   Kind = "untrusted"    // no answer: TLS
	Broken      Kind = "broken"       // the answer ended too early, or said an error in the middle
	Cancelled   Kind = "cancelled"    // the agent went away
	Paused      Kind = "paused"       // not let out: the agent called again and again and came no further
	Aborted     Kind = "aborted"      // AbortInFlight or Close
)

// An Event is something that happened to a request.
type Event struct {
	Kind Kind
	// Request numbers the requests of a gateway from 1.
	Request uint64
	Time    time.Time
	Method  string
	Path    string // as inside, "/v1/chat/completions"
	// Model is what the call asks for, where a policy looks at it.
	Model string
	// Status is the endpoint's, or the gateway's own for Refused, Unreachable and
	// Untrusted; 0 when there is none.
	Status int
	// Message is one sentence for people.
	Message string
	// Retry says that agents usually try again by themselves.
	Retry bool
	// Failures counts the requests that failed since the last that did not,
	// including this one. Refused, Cancelled and Aborted do not count.
	Failures int
	// Duration since the request started; 0 in Started.
	Duration time.Duration
	// Bytes of the answer's body that were passed on.
	Bytes int64
	// Usage is what the call used; nil when the endpoint was not reached or refused.
	Usage *Usage
	// Spent is the sum of the session's calls with this one; zero where Usage is nil.
	Spent Spent
}

// Usage counts the tokens of a call.
type Usage struct {
	Input, Output, Total int
	Cached               int // of Input
	// Estimated says that the endpoint did not say.
	Estimated bool
}

// failed reports whether a request that ended so failed.
func (k Kind) failed() bool {
	switch k {
	case Started, Finished, Refused, Paused, Cancelled, Aborted:
		return false
	}
	return true
}

// observer passes events on, one at a time.
type observer struct {
	observe func(Event)

	// mu is held while observe runs and guards the fields below.
	mu       sync.Mutex
	requests uint64
	failures int
}

// number returns the number of a new request.
func (o *observer) number() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	return o.requests
}

func (o *observer) send(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case e.Kind == Finished:
		o.failures = 0
	case e.Kind.failed():
		o.failures++
	}
	e.Failures = o.failures
	e.Time = time.Now()
	if o.observe != nil {
		o.observe(e)
	}
}

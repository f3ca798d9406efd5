package egress

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
)

// Answer is what a person says about a host.
type Answer string

// The answers. Unasked means that nobody could be asked.
const (
	Once    Answer = "once"    // for the connections that wait for the answer
	Session Answer = "session" // for the session
	Project Answer = "project" // from now on, in this project
	Deny    Answer = "deny"    // for the session
	Unasked Answer = ""
)

const (
	maxQuestions = 20 // of one session
	maxNotices   = 10 // of one session
)

// A Book remembers what was answered, decided and shown in one session. It outlives the
// doors of that session.
type Book struct {
	save func(address string) error

	// mu guards what follows.
	mu      sync.Mutex
	allowed map[string]string // address to who allowed it
	denied  map[string]bool
	asking  map[string]*question
	asked   int
	told    map[string]bool
	// tallies are the decisions; different is how many there are, by their outcome.
	tallies   map[Decision]*tallied
	different map[bool]int
}

// question is one that is being asked.
type question struct {
	done   chan struct{}
	answer Answer // before done is closed
}

// NewBook returns a book that saves the addresses (host:port) that the person allows for the
// project, see Options.Remembered; they hold for the session where that fails. save may be nil.
func NewBook(save func(address string) error) *Book {
	if save == nil {
		save = func(string) error { return errors.ErrUnsupported }
	}
	return &Book{save: save, allowed: map[string]string{}, denied: map[string]bool{}, asking: map[string]*question{}, told: map[string]bool{}, tallies: map[Decision]*tallied{}, different: map[bool]int{}}
}

// ask finds the answer for a host: what was said before, or what the person says
// now. It returns who allowed it, or else why it is refused.
func (b *Book) ask(ctx context.Context, ask func(context.Context, string, int) Answer, host string, port int) (by, refused string) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	b.mu.Lock()
	by, known := b.allowed[address]
	denied, q := b.denied[address], b.asking[address]
	mine := q == nil
	switch {
	case known, denied:
	case ask == nil:
		b.mu.Unlock()
		return "", unruled
	case mine && b.asked >= maxQuestions:
		b.mu.Unlock()
		return "", unruled + ", and this session has had its " + strconv.Itoa(maxQuestions) + " questions about hosts"
	case mine:
		b.asked++
		q = &question{done: make(chan struct{})}
		b.asking[address] = q
	}
	b.mu.Unlock()
	switch {
	case known:
		return by, ""
	case denied:
		return "", "it was denied for this session"
	case mine:
		limited, done := context.WithTimeout(context.WithoutCancel(ctx), askTime) // others may wait for it, too
		defer done()
		b.answered(address, q, ask(limited, host, port))
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		return "", "the program gave up waiting for an answer"
	}
	switch q.answer {
	case Once, Session, Project:
		return "the person (" + string(q.answer) + ")", ""
	case Deny:
		return "", "it was denied"
	}
	return "", unruled + ", and nobody could be asked; add it there, or ask in an editor"
}

// answered takes an answer down and lets those go on who wait for it. What holds for
// the project is not the session's: it ends when the person takes it back.
func (b *Book) answered(address string, q *question, a Answer) {
	if a == Project && b.save(address) != nil {
		a = Session
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q.answer = a
	close(q.done)
	delete(b.asking, address)
	switch a {
	case Session:
		b.allowed[address] = "the person, for this session"
	case Deny:
		b.denied[address] = true
	}
}

// refused reports whether a refusal is to be shown, and what to add to it.
func (b *Book) refused(address string) (more string, show bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told[address] || len(b.told) >= maxNotices {
		return "", false
	}
	b.told[address] = true
	if len(b.told) == maxNotices {
		more = " Further hosts are on record only."
	}
	return more, true
}

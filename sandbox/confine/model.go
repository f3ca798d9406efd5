package confine

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/policy"
)

// OpenModel implements Terms: it opens the gateway of one session of an agent.
func (w *Ways) OpenModel(way Way, p policy.Policy) (_ Model, err error) {
	out := w.outlet(way)
	w.mu.Lock()
	out.model = &p.Model
	w.mu.Unlock()
	o := modelOptions(p.Model, out.meter, way.Leaks, way.Sent)
	o.Budget = o.Budget.Within(way.Budget)
	o.Retries = w.o.Retries != nil && w.o.Retries(way.Agent)
	m := &watchedModel{}
	o.Observe = func(e gateway.Event) {
		w.watch.see(e)
		m.see(e)
		if way.Observe != nil {
			way.Observe(e)
		}
		if e.Usage != nil {
			if err := out.keepSpent(); err != nil {
				w.o.Log.Warn("what the session has spent is not kept; its budget begins anew after a restart", "session", way.Session, "err", err)
			}
		}
		if text := out.notices.bound(modelNotice(e), e.Time); text != "" {
			way.Notice("warning", text)
		}
	}
	if m.Gateway, err = w.OpenGateway(way.Agent, o); err != nil {
		return nil, err
	}
	return m, nil
}

// LastFailure says why the last model call of any session failed, and whether the policy
// refused it; empty when it did not fail, or before since.
func (w *Ways) LastFailure(since time.Time) (why string, refused bool) {
	return w.watch.LastFailure(since)
}

// watchedModel is a gateway that knows why its last call failed.
type watchedModel struct {
	*gateway.Gateway
	modelWatch
}

// modelNotice is what a person is told of a model call; mostly nothing.
func modelNotice(e gateway.Event) string {
	switch e.Kind {
	case gateway.Started, gateway.Finished, gateway.Cancelled, gateway.Aborted:
		return ""
	}
	if e.Failures > 1 {
		return fmt.Sprintf("%s (%d times in a row)", e.Message, e.Failures)
	}
	return e.Message
}

// modelNotices bounds what a person is told of a session's calls: a program inside can have
// as many of them refused as it likes, each in other words.
type modelNotices struct {
	// mu guards since when so many have been told.
	mu    sync.Mutex
	since time.Time
	told  int
}

const (
	noticesTime  = time.Minute
	noticesInAll = 20 // in that time
)

// bound is a notice as it is told at a moment; empty when it is not.
func (n *modelNotices) bound(text string, now time.Time) string {
	if text == "" {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.since) > noticesTime {
		n.since, n.told = now, 0
	}
	n.told++
	switch {
	case n.told > noticesInAll:
		return ""
	case n.told == noticesInAll:
		return text + " What else goes wrong with model calls in this minute is not shown."
	}
	return text
}

// modelWatch remembers how the last model call ended. That an agent lists the
// models is no such call: some do after a failure.
type modelWatch struct {
	// mu guards the fields below.
	mu      sync.Mutex
	failure string
	refused bool      // by the policy
	at      time.Time // of the failure
	running map[uint64]time.Time
}

func (m *modelWatch) see(e gateway.Event) {
	if e.Method != http.MethodPost {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Kind != gateway.Started {
		delete(m.running, e.Request)
	} else if m.running == nil {
		m.running = map[uint64]time.Time{e.Request: e.Time}
	} else {
		m.running[e.Request] = e.Time
	}
	switch e.Kind {
	case gateway.Started, gateway.Cancelled, gateway.Aborted:
	case gateway.Finished:
		m.failure, m.refused = "", false
	default:
		m.failure, m.refused, m.at = e.Message, e.Kind == gateway.Refused, e.Time
	}
}

// Waiting says since when a call waits for the end of its answer, if one does.
func (m *modelWatch) Waiting() (since time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, began := range m.running {
		if !ok || began.Before(since) {
			since, ok = began, true
		}
	}
	return since, ok
}

// LastFailure is why the last model call failed, and whether the policy refused it; empty
// when it did not fail, or before since.
func (m *modelWatch) LastFailure(since time.Time) (why string, refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.Before(since) {
		return "", false
	}
	return m.failure, m.refused
}

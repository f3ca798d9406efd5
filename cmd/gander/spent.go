package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sessions"
)

// meter is that of a session, which goes on where an earlier gander has left it. One
// that cannot be read counts from zero, and the person is told.
func (w *wiring) meter(way confine.Way) *gateway.Meter {
	spent, err := w.readSpent(way.Session)
	if err != nil {
		way.Notice("warning", fmt.Sprintf("What the session has spent is not known and counts from zero: %v.", err))
	}
	return gateway.ResumeMeter(spent)
}

// spentFile is where it is written what a session has spent; empty for one that is
// not kept.
func (w *wiring) spentFile(id acp.SessionID) string {
	if sessions.CheckID(id) != nil {
		return ""
	}
	return router.SpentPath(w.config().Home, id)
}

// readSpent is what a session has spent, as of its last model call.
func (w *wiring) readSpent(id acp.SessionID) (s gateway.Spent, err error) {
	raw, err := os.ReadFile(w.spentFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return gateway.Spent{}, fmt.Errorf("reading what session %s has spent: %w", id, err)
	}
	return s, nil
}

// keepSpent writes down what the meter says now.
func (o *outlet) keepSpent() error {
	if o.spent == "" {
		return nil
	}
	o.keeping.Lock()
	defer o.keeping.Unlock()
	raw, err := json.Marshal(o.meter.Spent())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.spent), 0o700); err != nil {
		return err
	}
	return writePrivately(o.spent, append(raw, '\n'))
}

// defaultCurrency is that of prices when policy.model.currency is not set.
const defaultCurrency = "USD"

// cost is what a session has cost by the prices of policy.model; nil when none of its
// calls had a price.
func (w *wiring) cost(id acp.SessionID, project string) *acp.Cost {
	s, open := w.outlets.spent(id)
	if !open {
		s, _ = w.readSpent(id) // who cannot read it says so with the next model call
	}
	p, err := w.policyOf(project)
	if err != nil || s.Calls == s.Unpriced {
		return nil
	}
	return &acp.Cost{Amount: s.Cost, Currency: cmp.Or(p.Model.Currency, defaultCurrency)}
}

// spent is what a session that is open has spent.
func (o *outlets) spent(id acp.SessionID) (s gateway.Spent, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.of[id]
	if found == nil {
		return s, false
	}
	return found.meter.Spent(), true
}

// spent is what a session has spent, in words.
func (w *wiring) spent(id acp.SessionID) string {
	s, err := w.readSpent(id)
	if err != nil {
		return err.Error()
	}
	return s.String()
}

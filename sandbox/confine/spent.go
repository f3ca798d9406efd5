package confine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sessions"
)

// meter is that of a session, which goes on where an earlier gander has left it. One
// that cannot be read counts from zero, and the person is told.
func (w *Ways) meter(way Way) *gateway.Meter {
	spent, err := w.readSpent(way.Session)
	if err != nil {
		way.Notice("warning", fmt.Sprintf("What the session has spent is not known and counts from zero: %v.", err))
	}
	return gateway.ResumeMeter(spent)
}

// spentFile is where it is written what a session has spent; empty for one that is
// not kept.
func (w *Ways) spentFile(id acp.SessionID) string {
	if sessions.CheckID(id) != nil {
		return ""
	}
	return SpentPath(w.o.StateDir, id)
}

// readSpent is what a session has spent, as of its last model call.
func (w *Ways) readSpent(id acp.SessionID) (s gateway.Spent, err error) {
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
	return WritePrivately(o.spent, append(raw, '\n'))
}

// DefaultCurrency is that of prices when policy.model.currency is not set.
const DefaultCurrency = "USD"

// Cost implements Terms: what a session has cost by the prices of policy.model; nil when none of its
// calls had a price, or none can have one.
func (w *Ways) Cost(id acp.SessionID, project string) *acp.Cost {
	s, model := w.open(id)
	if model == nil {
		s, _ = w.readSpent(id) // who cannot read it says so with the next model call
		p, err := w.Policy(project)
		if err != nil {
			return nil
		}
		model = &p.Model
	}
	if s.Calls == s.Unpriced && (s.Calls > 0 || len(model.Prices) == 0) {
		return nil
	}
	return &acp.Cost{Amount: s.Cost, Currency: cmp.Or(model.Currency, DefaultCurrency)}
}

// open returns what a session has spent whose way to the model is open, or was, and what holds
// for that; nil for other sessions.
func (w *Ways) open(id acp.SessionID) (gateway.Spent, *policy.Model) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.of[id]
	if found == nil || found.model == nil {
		return gateway.Spent{}, nil
	}
	return found.meter.Spent(), found.model
}

// Spent implements Terms: what a session has spent, in words.
func (w *Ways) Spent(id acp.SessionID) string {
	s, err := w.readSpent(id)
	if err != nil {
		return err.Error()
	}
	return s.String()
}

// SpentPath returns the file, below a state directory, in which it is written what the
// model calls of a session have used. It goes with the session.
func SpentPath(stateDir string, id acp.SessionID) string {
	return filepath.Join(stateDir, "spent", string(id)+".json")
}

package confine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/natefinch/atomic"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sandbox/rules/policy"
)

// Ways open what leads out of sandboxes, by the policies of Settings. They remember for each
// session, while it lasts, what it has used and what was answered in it, also when its
// agent, and the ways with it, are replaced. Their methods may be called concurrently.
type Ways struct {
	Settings
	o     WaysOptions
	watch modelWatch

	// mu guards of.
	mu sync.Mutex
	of map[acp.SessionID]*outlet
}

// WaysOptions say what Ways need. Log may be nil.
type WaysOptions struct {
	// StateDir is gander's home, where what sessions have spent is kept.
	StateDir string
	// Permissions remember the hosts that are allowed for good.
	Permissions *permit.Store
	// Asks says that there is somebody to be asked about hosts.
	Asks bool
	Log  *slog.Logger
}

// NewWays returns the ways out by these settings.
func NewWays(s Settings, o WaysOptions) *Ways {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Ways{Settings: s, o: o, of: map[acp.SessionID]*outlet{}}
}

// outlet is what one session has used and what was answered in it.
type outlet struct {
	meter   *gateway.Meter
	spent   string // the file of what the meter says; empty keeps nothing
	book    *egress.Book
	notices modelNotices

	keeping sync.Mutex // held while spent is written
}

// outlet finds what belongs to a session; it is forgotten when that ends.
func (w *Ways) outlet(way Way) *outlet {
	w.mu.Lock()
	defer w.mu.Unlock()
	if found := w.of[way.Session]; found != nil && way.Session != "" {
		return found
	}
	hosts := hostMemory{w.o.Permissions, way.WorkingDir}
	made := &outlet{meter: w.meter(way), spent: w.spentFile(way.Session), book: egress.NewBook(func(address string) bool {
		allowed, err := hosts.allows(address)
		if err != nil {
			way.Notice("warning", fmt.Sprintf("Whether you have allowed %s for this project is not known: %v.", address, err))
		}
		return allowed
	}, func(address string) error {
		err := hosts.add(address)
		if err != nil {
			way.Notice("warning", fmt.Sprintf("That %s is always allowed holds for this session only: %v.", address, err))
		}
		return err
	})}
	if way.Session != "" {
		w.of[way.Session] = made
		context.AfterFunc(way.Context, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.of, way.Session)
		})
	}
	return made
}

// modelOptions are a policy's rules for model calls.
func modelOptions(p policy.Model, meter *gateway.Meter, leaks *Leaks) gateway.Options {
	prices := map[string]gateway.Price{}
	for name, price := range p.Prices {
		prices[name] = gateway.Price(price)
	}
	var inspect func([]byte) error
	if leaks != nil && leaks.On() {
		inspect = func(body []byte) error { return leaks.Check("a call of the model", body) }
	}
	return gateway.Options{
		Inspect: inspect,
		Models:  p.Allow, Remote: p.Remote, Budget: gateway.Budget{MaxTokens: p.MaxTokens, MaxCost: p.MaxCost}, Prices: prices, Meter: meter,
	}
}

// OpenEgress implements Terms: it opens the way to the hosts that a project's policy
// allows; nil when it is the model only. A way on which nobody can be asked about hosts
// knows none that a person has allowed before either.
func (w *Ways) OpenEgress(way Way) (Egress, error) {
	p, err := w.Policy(way.WorkingDir)
	if err != nil || !p.Network.Open() {
		return nil, err
	}
	rules, err := egress.ParseRules(p.Network.Allow, p.Network.Presets)
	if err != nil {
		return nil, fmt.Errorf("policy.network: %w", err)
	}
	o := egress.Options{Rules: rules, Ask: way.Ask, Observe: way.Decided, Inspect: leakInspector(way), Log: w.o.Log}
	if way.Ask != nil {
		o.Book = w.outlet(way).book
		o.Notice = func(text string) { way.Notice("warning", text) }
	}
	switch {
	case !p.Network.Ask:
		o.Ask = nil
	case !w.o.Asks:
		o.Ask = func(context.Context, string, int) egress.Answer { return egress.Unasked }
	}
	return egress.New(o), nil
}

// leakInspector looks at what leaves by connections; nil when nothing is looked for.
func leakInspector(way Way) func() io.Writer {
	const where = "a connection out of the sandbox"
	if way.Leaks == nil || !way.Leaks.On() {
		return nil
	}
	return func() io.Writer { return way.Leaks.Stream(where) }
}

// hostMemory remembers the hosts that a person has allowed for a project, for every
// agent.
type hostMemory struct {
	store   *permit.Store
	project string
}

func hostSubject(address string) permit.Subject {
	return permit.Subject{Kind: permit.KindHost, Tool: "network", Text: address}
}

func (m hostMemory) allows(address string) (bool, error) {
	rule, found, err := m.store.Find(m.project, hostSubject(address), true)
	return found && rule.Allow, err
}

func (m hostMemory) add(address string) error {
	_, err := m.store.Add(m.project, permit.Rule{Subject: hostSubject(address), Title: "connect to " + address, Allow: true, Isolated: true})
	return err
}

// writePrivately replaces a file at one stroke by one that only this user can read.
func writePrivately(path string, content []byte) error {
	if err := atomic.WriteFile(path, bytes.NewReader(content)); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

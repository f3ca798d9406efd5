package confine

import (
	"bytes"
	"context"
	"errors"
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
	// Retries reports whether an agent calls the model again after a failure that may pass.
	Retries func(agent string) bool
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
	// model held for it last, under mu of Ways; nil before a way to the model was open.
	model *policy.Model

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
	made := &outlet{meter: w.meter(way), spent: w.spentFile(way.Session), book: egress.NewBook(func(address string) error {
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
func modelOptions(p policy.Model, meter *gateway.Meter, leaks *Leaks, sent func([]byte)) gateway.Options {
	prices := map[string]gateway.Price{}
	for name, price := range p.Prices {
		prices[name] = gateway.Price(price)
	}
	var inspect func([]byte) error
	if looks := leaks != nil && leaks.On(); looks || sent != nil {
		inspect = func(body []byte) error {
			if sent != nil {
				sent(body)
			}
			if !looks {
				return nil
			}
			return leaks.Check("a call of the model", body)
		}
	}
	return gateway.Options{
		Inspect: inspect,
		Models:  p.Allow, Remote: p.Remote, Budget: gateway.Budget{MaxTokens: p.MaxTokens, MaxCost: p.MaxCost}, Prices: prices, Meter: meter,
	}
}

// OpenEgress implements Terms: it opens the way to the hosts that a project's policy
// allows, and that the person has allowed for it. Where these are none it tells of what is
// refused, and is no proxy, see Proxied.
func (w *Ways) OpenEgress(way Way, p policy.Policy) (Egress, error) {
	rules, err := egress.ParseRules(p.Network.Allow, p.Network.Presets)
	if err != nil {
		return nil, fmt.Errorf("policy.network: %w", err)
	}
	var once sync.Once
	remembered := func() (allowed, denied []egress.Rule) {
		allowed, denied, err := HostRules(w.o.Permissions, way.WorkingDir)
		if err != nil {
			once.Do(func() {
				way.Notice("warning", fmt.Sprintf("Which hosts you have allowed for this project is not known: %v.", err))
			})
		}
		return allowed, denied
	}
	o := egress.Options{
		Rules: rules, Remembered: remembered, Observe: way.Decided, Inspect: leakInspector(way), Log: w.o.Log,
		Notice: func(text string) { way.Notice("warning", text) },
	}
	if way.Ask != nil {
		o.Book = w.outlet(way).book
	}
	if p.Network.Ask && w.o.Asks {
		o.Ask = way.Ask
	}
	door := egress.New(o)
	if allowed, _ := remembered(); !p.Network.Open() && len(allowed) == 0 {
		return roadOnly{door}, nil
	}
	return door, nil
}

// roadOnly is a way out on which nothing is allowed yet. Programs that were told of a proxy
// would hear from it that they may not, and not that there is no such host.
type roadOnly struct{ *egress.Door }

// Proxied reports whether programs inside are to be told of a way out as of a proxy.
func Proxied(e any) bool {
	_, only := e.(roadOnly)
	return e != nil && !only
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

// HostRule returns what is remembered when a person allows or denies the hosts of a rule.
func HostRule(rule string, allow bool) permit.Rule {
	title := "connect to " + rule
	return permit.Rule{Subject: permit.Subject{Kind: permit.KindHost, Tool: "network", Text: rule}, Title: title, Allow: allow, Isolated: true}
}

// HostRules returns what the person has said about hosts for good, for a project and for all
// of them.
func HostRules(store *permit.Store, project string) (allowed, denied []egress.Rule, err error) {
	for _, of := range []struct{ project, whom string }{{project, "you, for this project"}, {permit.Everywhere, "you, for every project"}} {
		said, failed := store.Rules(of.project)
		err = errors.Join(err, failed)
		for _, s := range said {
			rule, bad := egress.ParseRule(s.Text)
			switch {
			case s.Kind != permit.KindHost || bad != nil:
			case s.Allow:
				allowed = append(allowed, rule.By(of.whom))
			default:
				denied = append(denied, rule.By(of.whom))
			}
		}
	}
	return allowed, denied, err
}

func (m hostMemory) add(address string) error {
	_, err := m.store.Add(m.project, HostRule(address, true))
	return err
}

// WritePrivately replaces a file at one stroke by one that only this user can read.
func WritePrivately(path string, content []byte) error {
	if err := atomic.WriteFile(path, bytes.NewReader(content)); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

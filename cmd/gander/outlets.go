package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/natefinch/atomic"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sandbox/rules/policy"
)

// outlets is what the ways out of each session remember while it lasts, also when
// its agent, and the ways with it, are replaced.
type outlets struct {
	// mu guards of.
	mu sync.Mutex
	of map[acp.SessionID]*outlet
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
func (w *wiring) outlet(way confine.Way) *outlet {
	o := &w.outlets
	o.mu.Lock()
	defer o.mu.Unlock()
	if found := o.of[way.Session]; found != nil && way.Session != "" {
		return found
	}
	hosts := hostMemory{permit.Open(permissionsDir(w.config())), way.WorkingDir}
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
		if o.of == nil {
			o.of = map[acp.SessionID]*outlet{}
		}
		o.of[way.Session] = made
		context.AfterFunc(way.Context, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.of, way.Session)
		})
	}
	return made
}

// policyOf is the policy that holds in a project; an empty one means the person's.
func (w *wiring) policyOf(project string) (policy.Policy, error) {
	cfg := w.config()
	if project == "" {
		return cfg.Policy, nil
	}
	cfg, err := cfg.ForProject(project)
	if err != nil {
		return policy.Policy{}, err
	}
	return cfg.Policy, nil
}

// modelOptions are a policy's rules for model calls.
func modelOptions(p policy.Model, meter *gateway.Meter, leaks *confine.Leaks) gateway.Options {
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

// canaries is what happens in a project when content of closed files leaves. A
// policy that cannot be read is the strictest: no session starts with it anyway.
func (w *wiring) canaries(project string) string {
	p, err := w.policyOf(project)
	if err != nil {
		return confine.CanariesStop
	}
	return p.Canaries
}

// openEgress opens the way to the hosts that a project's policy allows; nil when
// it is the model only.
func (w *wiring) openEgress(way confine.Way) (confine.Egress, error) {
	door, err := w.openDoor(way, way.Decided)
	if err != nil || door == nil {
		return nil, err
	}
	return door, nil
}

// openDoor is openEgress with who hears what is decided.
func (w *wiring) openDoor(way confine.Way, observe func(egress.Tally)) (*egress.Door, error) {
	p, err := w.policyOf(way.WorkingDir)
	if err != nil || !p.Network.Open() {
		return nil, err
	}
	o := w.outlet(way)
	return w.egress(p.Network, egress.Options{
		Book:    o.book,
		Observe: observe,
		Inspect: leakInspector(way),
		Notice:  func(text string) { way.Notice("warning", text) },
		Ask:     way.Ask,
	})
}

// leakInspector looks at what leaves by connections; nil when nothing is looked for.
func leakInspector(way confine.Way) func() io.Writer {
	const where = "a connection out of the sandbox"
	if way.Leaks == nil || !way.Leaks.On() {
		return nil
	}
	return func() io.Writer { return way.Leaks.Stream(where) }
}

// egress makes a door of a policy and what a session has.
func (w *wiring) egress(p policy.Network, o egress.Options) (*egress.Door, error) {
	rules, err := egress.ParseRules(p.Allow, p.Presets)
	if err != nil {
		return nil, &config.Error{Path: "policy.network", Reason: err.Error()}
	}
	switch {
	case !p.Ask:
		o.Ask = nil
	case !w.asks:
		o.Ask = func(context.Context, string, int) egress.Answer { return egress.Unasked }
	}
	o.Rules, o.Log = rules, w.log
	return egress.New(o), nil
}

// egressDoor is the door for a command of gander's own in a place, and what to
// close with it; none where the policy is the model only. stop ends the command, and ctx
// with it.
func (a *app) egressDoor(ctx context.Context, in place, stop func()) ([]sandbox.Door, func(), error) {
	w := a.wire()
	p, err := w.policyOf(in.cwd)
	if err != nil || !p.Network.Open() {
		return nil, stop, err
	}
	leaks := w.leaksOfCommand(ctx, in.cwd, func() {
		if in.leaked != nil {
			in.leaked()
		}
		stop()
	})
	door, err := w.egress(p.Network, egress.Options{
		// What was allowed is no reason to worry, and to be seen all the same.
		Observe: func(t egress.Tally) { a.log.Warn(t.String()) },
		Inspect: leakInspector(confine.Way{Leaks: leaks}),
	})
	if err != nil {
		return nil, stop, err
	}
	leaks.Look()
	dial := func(ctx context.Context) (net.Conn, error) {
		if err := leaks.Wait(ctx); err != nil {
			return nil, err
		}
		return door.Dial(ctx)
	}
	return []sandbox.Door{{Name: egressDoorName, Dial: dial}}, func() { stop(); _ = door.Close() }, nil
}

// leaksOfCommand looks at what a command of gander's own sends out.
func (w *wiring) leaksOfCommand(ctx context.Context, project string, stop func()) *confine.Leaks {
	return confine.NewLeaks(confine.LeakOptions{
		Mode: w.canaries(project), Project: project, Own: w.rules().Own, Context: ctx, Log: w.log,
		Notice: func(_, text string) { w.log.Warn(text) },
		Stop:   func(why string) { w.log.Error(why + " The command was ended (policy.canaries: stop)."); stop() },
		Spawn:  func(f func()) { go f() }, // ends with ctx
	})
}

// egressDoorName is the door of gander sandbox exec.
const egressDoorName = "egress"

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

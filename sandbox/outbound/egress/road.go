package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// A Door is a sandbox.Road, too: what connects inside by plain TCP is decided about here by
// the name that was looked up there, as in the proxy, and reaches the host by the same ways.

// Known reports whether programs inside may learn that a host leads somewhere: a name with
// port 0, which some rule has to allow at some port, or an address with its port. Nothing
// is looked up. What is not known is told the person, except of loopback addresses, at
// which programs try out ports of their own.
func (d *Door) Known(_ context.Context, name string, port int) bool {
	h, err := parseHost(name)
	if err != nil {
		return false
	}
	decision := Decision{Host: h.String(), Port: port, Reason: unruled}
	if h.addr.IsValid() {
		decision = d.explain(name, port)
		if decision.Allowed || d.opts.Ask != nil && notPublic(h.addr) == "" {
			return true
		}
	} else {
		allowed, denied := d.rules()
		open := func(r Rule) bool { return r.names(h) && !covered(r, h, denied) }
		switch {
		case slices.ContainsFunc(allowed, open):
			return true
		case slices.ContainsFunc(denied, func(r Rule) bool { return r.names(h) }):
			decision.Reason = wasDenied
		case d.opts.Ask != nil:
			return true // the person is asked about the connection
		}
	}
	if !h.addr.IsLoopback() {
		d.tell(decision, decision.remedy())
	}
	return false
}

// covered reports whether all that a rule allows of a host is denied.
func covered(r Rule, h host, denied []Rule) bool {
	if len(r.ports) == 0 {
		return slices.ContainsFunc(denied, func(no Rule) bool { return no.names(h) && len(no.ports) == 0 })
	}
	return !slices.ContainsFunc(r.ports, func(port int) bool {
		return !slices.ContainsFunc(denied, func(no Rule) bool { return no.allows(h, port) })
	})
}

// Loopback returns the addresses and ports of this machine itself that are allowed.
func (d *Door) Loopback() []netip.AddrPort {
	var all []netip.AddrPort
	allowed, denied := d.rules()
	for _, r := range allowed {
		if r.addr.IsLoopback() && !covered(r, host{addr: r.addr}, denied) {
			all = append(all, netip.AddrPortFrom(r.addr, uint16(r.ports[0])))
		}
	}
	return all
}

// Taken tells the person, once, that something inside listens at an allowed address of
// this machine, and is reached there instead.
func (d *Door) Taken(at netip.AddrPort) {
	if d.opts.Notice == nil {
		return
	}
	if _, ok := d.opts.Book.refused("taken " + at.String()); ok {
		d.opts.Notice(fmt.Sprintf("%s is reached inside the sandbox, where something listens. This machine's %s is reached again when that has ended.", at, at))
	}
}

// DialHost decides about a host and connects to it. The connection is looked at as a
// tunnel of the proxy is.
func (d *Door) DialHost(ctx context.Context, name string, port int) (net.Conn, error) {
	inside, outside := newPipe()
	c := &client{early: early{Conn: outside}, door: d}
	reached := make(chan error, 1)
	err := d.admit(c, func() {
		whole, done := d.scope(ctx)
		to, err := d.reach(whole, name, port)
		done()
		reached <- err
		if err != nil {
			_ = c.Close()
			return
		}
		d.tunnel(c, to, name, port)
	})
	if err == nil {
		err = <-reached
	}
	if err != nil {
		return nil, err
	}
	return inside, nil
}

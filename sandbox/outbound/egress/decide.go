package egress

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// A Decision is what was decided about a connection.
type Decision struct {
	Host string
	// Port is 0 in a refusal of what names none, and whose Host may be anything.
	Port    int
	Allowed bool
	// By is the rule, or the person's answer, that allowed it.
	By string
	// Reason says why it was refused, as a part of a sentence.
	Reason string
}

// Address is host and port.
func (d Decision) Address() string {
	if d.Port == 0 {
		return d.Host
	}
	return net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
}

// Unruled reports whether a host was refused only because no rule names it.
func (d Decision) Unruled() bool { return !d.Allowed && d.Reason == unruled }

// Reasons of refusals.
const (
	unruled   = "no rule of policy.network allows it"
	wasDenied = "you have denied it for good"
)

// Explain decides about a host by rules alone; nothing is looked up. For an
// address that is not public that is all there is to it; a name is refused later
// when what it resolves to is not public.
func Explain(rules []Rule, name string, port int) Decision {
	d := Decision{Host: short(name), Port: port}
	h, err := parseHost(name)
	if err != nil {
		d.Reason = err.Error()
		return d
	}
	d.Host = h.String()
	if h.addr.IsValid() && literal(rules, h.addr, port) == nil {
		if why := notPublic(h.addr); why != "" {
			d.Reason = fmt.Sprintf("it is %s, which only a rule for this very address and port allows", why)
			return d
		}
	}
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.allows(h, port) })
	if i < 0 {
		d.Reason = unruled
		return d
	}
	d.Allowed, d.By = true, rules[i].String()
	return d
}

// literal is the rule that names an address and its port.
func literal(rules []Rule, addr netip.Addr, port int) *Rule {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.addr == addr && slices.Equal(r.ports, []int{port}) })
	if i < 0 {
		return nil
	}
	return &rules[i]
}

// errRefused is why a connection is not made although it could be.
type errRefused struct{ Decision }

// Unwrap returns fs.ErrPermission.
func (e *errRefused) Unwrap() error { return fs.ErrPermission }

func (e *errRefused) Error() string {
	return fmt.Sprintf("the policy of this sandbox refuses %s: %s", e.Address(), e.Reason)
}

// malformed refuses what a client asks for in a way that is not served.
func (d *Door) malformed(to, reason string) {
	d.tell(Decision{Host: short(to), Reason: reason}, "")
}

// reach decides about a host and connects to it. Its name leaves, too: to look it up is to
// tell it to others.
func (d *Door) reach(ctx context.Context, name string, port int) (net.Conn, error) {
	if err := d.inspect([]byte(name + "\n")); err != nil {
		return nil, err
	}
	decision := d.decide(ctx, name, port)
	remedy := decision.remedy()
	var addrs []netip.Addr
	var via *url.URL
	var err error
	if decision.Allowed {
		via, err = d.upstream(decision.Host, port)
	}
	if decision.Allowed && err == nil {
		addrs, err = d.resolve(ctx, &decision, via)
	}
	d.tell(decision, remedy)
	switch {
	case !decision.Allowed:
		return nil, &errRefused{decision}
	case err != nil:
		return nil, fmt.Errorf("%s cannot be looked up: %w", decision.Host, err)
	case via != nil:
		return d.connectBy(ctx, via, decision.Host, port)
	}
	return d.connect(ctx, addrs, port)
}

// rules are all that is allowed at the moment, and what is denied for good.
func (d *Door) rules() (allowed, denied []Rule) {
	if d.opts.Remembered == nil {
		return d.opts.Rules, nil
	}
	allowed, denied = d.opts.Remembered()
	return slices.Concat(d.opts.Rules, allowed), denied
}

// explain is Explain with what the person has said for good.
func (d *Door) explain(name string, port int) Decision {
	allowed, denied := d.rules()
	return ExplainAll(allowed, denied, name, port)
}

// ExplainAll is Explain where some hosts are denied, which wins over the rules.
func ExplainAll(allowed, denied []Rule, name string, port int) Decision {
	decision := Explain(allowed, name, port)
	h, err := parseHost(name)
	if err == nil && slices.ContainsFunc(denied, func(r Rule) bool { return r.allows(h, port) }) {
		return Decision{Host: decision.Host, Port: port, Reason: wasDenied}
	}
	return decision
}

// decide is explain with the person's answers.
func (d *Door) decide(ctx context.Context, name string, port int) Decision {
	decision := d.explain(name, port)
	if decision.Allowed || decision.Reason == wasDenied {
		return decision
	}
	h, err := parseHost(name)
	if err != nil || h.addr.IsValid() && notPublic(h.addr) != "" {
		return decision // not for a question
	}
	answer, said := d.opts.Book.ask(ctx, d.opts.Ask, h.String(), port)
	decision.Allowed = said == ""
	decision.By, decision.Reason = answer, said
	return decision
}

// resolve finds the addresses of an allowed host. When all of them are refused, so
// is the host. By the proxy of this machine a host may be reached that only the proxy can
// look up.
func (d *Door) resolve(ctx context.Context, decision *Decision, via *url.URL) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(decision.Host); err == nil {
		return []netip.Addr{addr}, nil // decided already
	}
	if via != nil {
		limited, done := context.WithTimeout(ctx, ownLookupTime)
		defer done()
		ctx = limited
	}
	found, err := d.opts.Lookup(ctx, decision.Host)
	if err != nil && via != nil {
		return nil, nil
	}
	if err == nil && len(found) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, err
	}
	var good []netip.Addr
	why := ""
	allowed, _ := d.rules()
	for _, addr := range found {
		addr = addr.Unmap()
		if bad := notPublic(addr); bad != "" && literal(allowed, addr, decision.Port) == nil {
			why = fmt.Sprintf("its address %s is %s; a rule for %s would allow it", addr, bad, netip.AddrPortFrom(addr, uint16(decision.Port)))
			continue
		}
		good = append(good, addr)
	}
	if len(good) == 0 {
		decision.Allowed, decision.Reason = false, why
	}
	return good, nil
}

// connect tries the addresses one by one.
func (d *Door) connect(ctx context.Context, addrs []netip.Addr, port int) (net.Conn, error) {
	err := errors.New("there is no address")
	for _, addr := range addrs[:min(len(addrs), maxConnections)] {
		var c net.Conn
		limited, done := context.WithTimeout(ctx, connectTime)
		c, err = d.opts.Connect(limited, netip.AddrPortFrom(addr, uint16(port)))
		done()
		if err == nil {
			if !d.keep(c) {
				return nil, ErrClosed
			}
			return &kept{Conn: c, door: d}, nil
		}
	}
	return nil, err
}

// kept is a connection to a host.
type kept struct {
	net.Conn
	door *Door
}

// CloseWrite ends what the host reads.
func (k *kept) CloseWrite() error {
	closeWrite(k.Conn)
	return nil
}

func (k *kept) Close() error {
	k.door.forget(k.Conn)
	return k.Conn.Close()
}

// remedy says how to allow what no rule does; empty for what is allowed, or is no host.
func (d Decision) remedy() string {
	if _, err := ParseRule(d.Address()); d.Allowed || err != nil {
		return ""
	}
	return " To allow it in this project: gander policy allow " + d.Address()
}

// tell has a decision observed and shows a refusal with its remedy, a sentence or nothing.
func (d *Door) tell(decision Decision, remedy string) {
	if d.opts.Observe != nil {
		if t, ok := d.opts.Book.count(decision); ok {
			d.opts.Observe(t)
		}
	}
	if d.opts.Notice == nil || decision.Allowed {
		return
	}
	if more, ok := d.opts.Book.refused(decision.Host); ok {
		d.opts.Notice(fmt.Sprintf("The sandbox may not reach %s: %s.%s%s", decision.Address(), decision.Reason, remedy, more))
	}
}

// askTime bounds the waiting for a person.
const askTime = 3 * time.Minute

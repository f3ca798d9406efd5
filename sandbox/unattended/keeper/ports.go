package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/ports"
)

// ErrPort is returned for a port that cannot be opened.
var ErrPort = errors.New("the port is not open")

// runPorts holds the ports of a run that are open on this machine, also when its sandbox is made
// again.
type runPorts struct {
	mu     sync.Mutex // guards what follows
	wanted []ports.Spec
	set    *ports.Set // nil while there is no sandbox
}

// begin opens in a new sandbox what the person has named, and tells the page of these and of
// servers that begin to listen inside.
func (p *runPorts) begin(in *incarnation) {
	set := ports.NewSet(in.place.Sandbox, in.k.dir.SandboxID(), in.k.log)
	for _, text := range p.reopen(set) {
		in.notice(text)
	}
	set.Watch(func(port int) {
		if !p.wants(port) {
			in.provokedNotice(fmt.Sprintf("Port %d listens inside. To open it on this machine, use Ports on this page; for every sandbox, add \"%d\" to sandbox.ports in gander's config.json.", port, port))
		}
	})
}

// reopen makes a set the present one, and tells what came of each port.
func (p *runPorts) reopen(set *ports.Set) (said []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set = set
	for _, spec := range p.wanted {
		url, err := set.Open(spec)
		text := "Open: " + ports.Say(spec.Port, url) + "."
		if err != nil {
			text = fmt.Sprintf("Port %d of the sandbox is not open: %v.", spec.Port, err)
		}
		said = append(said, text)
	}
	return said
}

func (p *runPorts) wants(port int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.wanted, func(s ports.Spec) bool { return s.Port == port })
}

// end closes all, until the next sandbox.
func (p *runPorts) end() {
	p.mu.Lock()
	set := p.set
	p.set = nil
	p.mu.Unlock()
	if set != nil {
		set.End()
	}
}

// carryOut carries out the person's order, and returns what is open then.
func (p *runPorts) carryOut(ctx context.Context, o ports.Order, notice func(string)) (ports.View, error) {
	set, err := p.change(o, notice)
	if err != nil {
		return ports.View{}, err
	}
	v, err := set.View(ctx)
	switch {
	case errors.Is(err, ports.ErrShared):
		err = fmt.Errorf("%w: %w", ErrPort, err)
	case errors.Is(err, sandbox.ErrGone):
		err = ErrNoLoop
	}
	return v, err
}

// change opens or closes a port, and returns the set of the present sandbox.
func (p *runPorts) change(o ports.Order, notice func(string)) (*ports.Set, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil {
		return nil, ErrNoLoop
	}
	if o.Open != "" {
		spec, err := ports.Parse(o.Open)
		var url string
		if err == nil {
			url, err = p.set.Open(spec)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPort, err)
		}
		if !slices.Contains(p.wanted, spec) {
			p.wanted = append(p.wanted, spec)
			go notice("Open: " + ports.Say(spec.Port, url) + ".") // which waits for room
		}
	}
	if o.Close != 0 {
		p.set.Close(o.Close)
		p.wanted = slices.DeleteFunc(p.wanted, func(s ports.Spec) bool { return s.Port == o.Close })
	}
	return p.set, nil
}

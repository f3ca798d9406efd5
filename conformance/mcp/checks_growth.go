package mcp

import (
	"fmt"
	"slices"
	"time"

	"gander.dev/gander/conformance/harness"
)

func growthChecks() []Check {
	shell := []string{"shell"}
	return []Check{
		{ID: "growth.calls", Requirements: []int{59, 60, 61}, needs: shell, run: checkGrowthCalls, Text: "over a thousand calls neither descriptors, threads, processes nor memory grow"},
		{ID: "growth.cancels", Requirements: []int{59, 60}, needs: shell, run: checkGrowthCancels, Text: "nor over many cancels"},
		{ID: "growth.overhead", Requirements: []int{58}, needs: shell, run: checkOverhead, Text: "a command that does nothing, and a ping, are answered in well under a second"},
	}
}

// What may grow without being called growth: pools, buffers, the runtime.
const (
	moreDescriptors = 12
	moreThreads     = 40
	moreProcesses   = 2
	moreMemory      = 32 << 20
)

// holding is what a server holds at a moment.
type holding struct {
	usage
	processes int
}

func holdings(s *server) holding {
	return holding{harness.UsageOf(s.PID), len(harness.Marked(s.Mark))}
}

// steady notes what grew.
func (p *probe) steady(what string, before, after holding) {
	for _, g := range []struct {
		what                string
		before, after, more int64
	}{
		{"descriptors", int64(before.Descriptors), int64(after.Descriptors), moreDescriptors},
		{"threads", int64(before.Threads), int64(after.Threads), moreThreads},
		{"processes", int64(before.processes), int64(after.processes), moreProcesses},
		{"bytes of memory", before.Resident, after.Resident, moreMemory},
	} {
		if g.after > g.before+g.more {
			p.problem("over %s the %s grew from %d to %d", what, g.what, g.before, g.after)
		}
	}
}

func (p *probe) needHoldings() {
	if !harness.CanSeeProcesses || !p.facts.sees {
		p.skip("what the server holds cannot be seen from here")
	}
}

func checkGrowthCalls(p *probe) {
	p.needHoldings()
	const warm, calls, patience = 100, 1100, 20 * time.Second
	s := p.begin(launch{})
	call := func() {
		p.worked(p.callOn(s, "shell", args{"command": p.facts.dialect.exit(0)}), "shell", nil)
	}
	begun := time.Now()
	var before holding
	made := 0
	for ; made < calls && (time.Since(begun) < patience || made <= warm); made++ {
		if made == warm {
			before = holdings(s)
		}
		call()
	}
	p.steady(fmt.Sprintf("%d calls", made-warm), before, holdings(s))
}

func checkGrowthCancels(p *probe) {
	p.needHoldings()
	s := p.begin(launch{})
	cancels := func(n int) {
		var requests []*request
		for range n {
			r := p.ask(s, "shell", args{"command": p.facts.dialect.sleep()})
			s.cancel(r)
			requests = append(requests, r)
		}
		for _, r := range requests {
			p.cancelled(r, "a command that sleeps")
		}
	}
	cancels(20)
	before := holdings(s)
	for range 5 {
		cancels(20)
	}
	p.steady("100 cancels", before, holdings(s))
}

func checkOverhead(p *probe) {
	var calls, pings []time.Duration
	s := p.server()
	for range 5 {
		r := p.ask(s, "shell", args{"command": p.facts.dialect.exit(0)})
		p.answer(r, "shell")
		calls = append(calls, r.Took)
		ping := s.Ask("ping", nil)
		p.frame(ping, "ping")
		pings = append(pings, ping.Took)
	}
	if t := slices.Min(calls); t > unhurried {
		p.problem("the fastest of 5 commands that do nothing took %v", t)
	}
	if t := slices.Min(pings); t > unhurried {
		p.problem("the fastest of 5 pings took %v", t)
	}
}

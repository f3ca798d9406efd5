package mcp

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func cancelChecks() []Check {
	shell := []string{"shell"}
	return []Check{
		{ID: "cancel.running", Requirements: []int{29, 31, 38, 49, 65}, needs: shell, run: checkCancelRunning, Text: "a cancelled command is answered with an explicit failure, and the next one works"},
		{ID: "cancel.at-once", Requirements: []int{29, 30, 65}, needs: shell, run: checkCancelAtOnce, Text: "a cancel right behind its call hits, 30 of 30"},
		{ID: "cancel.escapes", Requirements: []int{32, 33, 38, 59, 65}, needs: shell, run: checkCancelEscapes, Text: "when the answer comes nothing of the command is left, however it tried to escape"},
		{ID: "cancel.graceful", Platform: "unix", Requirements: []int{32}, needs: shell, run: checkCancelGraceful, Text: "a command gets SIGTERM, and time to clean up, before it is killed"},
		{ID: "cancel.prompt", Requirements: []int{30, 58}, needs: shell, run: checkCancelPrompt, Text: "the answer comes when the processes are gone, not after a fixed second"},
		{ID: "cancel.flood", Requirements: []int{30, 61}, needs: shell, run: checkCancelFlood, Text: "a command that prints without end can be cancelled"},
		{ID: "cancel.exact", Requirements: []int{29}, needs: shell, run: checkCancelExact, Text: "only the call with the very id is cancelled: 7 is not \"7\""},
		{ID: "cancel.lingering", Requirements: []int{60, 65}, needs: shell, run: checkCancelLingering, Text: "cancels of finished, unknown and future ids are ignored, and leave nothing for a later call with that id"},
		{ID: "cancel.ill-formed", Requirements: []int{4, 29}, needs: shell, run: checkCancelIllFormed, Text: "ill-formed cancels are ignored"},
	}
}

// cancelled checks the answer to a call that was cancelled.
func (p *probe) cancelled(r *request, what string) {
	a := p.answer(r, what)
	switch {
	case !a.failed():
		p.problem("%s was cancelled and is answered as if it had worked: %s", what, excerpt(a.words()))
	case p.classic():
		p.refused(what, a, internalError, "Shell command was cancelled by user")
	case !strings.Contains(strings.ToLower(a.message), "cancel"):
		p.problem("%s was cancelled and the answer does not say so: %s", what, excerpt(a.words()))
	}
}

func checkCancelRunning(p *probe) {
	s := p.server()
	d := p.facts.dialect
	ready := p.path("ready")
	r := p.ask(s, "shell", args{"command": d.then(d.echo("begun"), d.touch(ready), d.sleep())})
	p.eventually("the command to run", func() bool { return p.exists("ready") || answered(r) })
	s.cancel(r)
	p.cancelled(r, "a command that sleeps")
	p.ok("shell", args{"command": d.echo("next")})
}

func checkCancelAtOnce(p *probe) {
	const times = 30
	s := p.server()
	var requests []*request
	for range times {
		id := s.NextID()
		r := s.Expect(id)
		call := requestLine(id, "tools/call", callParams("shell", args{"command": p.facts.dialect.sleep()}, p.meta()))
		cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
		_ = s.Write(call + "\n" + cancel + "\n")
		requests = append(requests, r)
	}
	for i, r := range requests {
		p.cancelled(r, fmt.Sprintf("call %d of %d", i+1, times))
	}
}

func checkCancelEscapes(p *probe) {
	s := p.begin(launch{})
	for range 2 {
		for _, e := range p.escapes() {
			run := p.letRun(s, e)[0]
			s.cancel(run.request)
			p.cancelled(run.request, "a command that "+e.name)
			if p.windows() { // where a job is told to end, and its processes are gone a moment later
				p.nothingLeft(s, "a cancel", []runaway{run})
			} else if left := p.left(s, run.mark); len(left) > 0 {
				p.problem("when the answer came a command that %s had left %v", e.name, left)
			}
		}
	}
}

func checkCancelGraceful(p *probe) {
	s := p.server()
	for i := range 4 { // the grace is short, and a busy machine may let it pass
		ready, bye := fmt.Sprintf("ready%d", i), fmt.Sprintf("bye%d", i)
		command := "trap 'echo bye > " + p.path(bye) + "; exit 0' TERM; : > " + p.path(ready) + "; while :; do sleep 0.1; done"
		r := p.ask(s, "shell", args{"command": command})
		p.eventually("the command to run", func() bool { return p.exists(ready) || answered(r) })
		s.cancel(r)
		p.cancelled(r, "a command that handles SIGTERM")
		if p.exists(bye) && strings.TrimSpace(p.read(bye)) == "bye" {
			return
		}
	}
	p.problem("a command wrote nothing on SIGTERM, in none of four cancels")
}

// unhurried is more than a command without resistance needs, and less than a fixed wait of a second.
const unhurried = 900 * time.Millisecond

func checkCancelPrompt(p *probe) {
	s := p.server()
	d := p.facts.dialect
	var took []time.Duration
	for i := range 8 {
		ready := fmt.Sprintf("ready%d", i)
		r := p.ask(s, "shell", args{"command": d.then(d.touch(p.path(ready)), d.sleep())})
		p.eventually("the command to run", func() bool { return p.exists(ready) || answered(r) })
		begun := time.Now()
		s.cancel(r)
		p.cancelled(r, "a command that sleeps")
		took = append(took, time.Since(begun))
		if slices.Min(took) < unhurried {
			return
		}
	}
	p.problem("the fastest of %d cancels took %v", len(took), slices.Min(took).Round(time.Millisecond))
}

func checkCancelFlood(p *probe) {
	s := p.begin(launch{})
	d := p.facts.dialect
	flood := d.pick("yes flood", "for /L %i in (1,0,2) do @echo flood", "while ($true) { 'flood' }")
	r := p.ask(s, "shell", args{"command": d.then(d.touch(p.path("ready")), flood)})
	p.eventually("the command to run", func() bool { return p.exists("ready") || answered(r) })
	s.cancel(r)
	p.cancelled(r, "a command that floods")
}

func checkCancelExact(p *probe) {
	s := p.begin(launch{})
	d := p.facts.dialect
	number, text := s.Expect(`4711`), s.Expect(`"4711"`)
	for i, r := range []*request{number, text} {
		command := d.then(d.touch(p.path(fmt.Sprintf("ready%d", i))), d.await(p.path("go")))
		_ = s.Send(requestLine(r.ID, "tools/call", callParams("shell", args{"command": command}, p.meta())))
	}
	p.eventually("both commands to run", func() bool { return p.exists("ready0") && p.exists("ready1") })
	s.cancel(number)
	p.cancelled(number, "the call 4711")
	p.ping(s, "a cancel")
	if answered(text) {
		p.fail("the call \"4711\" was answered when 4711 was cancelled: %s", excerpt(text.Answer.Raw))
	}
	p.write("go", "")
	p.worked(p.answer(text, "shell"), "shell", args{"command": "(waits)"})
}

func checkCancelLingering(p *probe) {
	s := p.begin(launch{})
	d := p.facts.dialect
	finished := p.ask(s, "shell", args{"command": d.echo("done")})
	p.answer(finished, "shell")
	s.cancel(finished)
	s.cancel(&request{ID: `777`})
	s.cancel(&request{ID: `"no such call"`})
	p.ping(s, "cancels of calls that do not run")
	for _, id := range []string{finished.ID, `777`, `"no such call"`} {
		r := s.Expect(id)
		_ = s.Send(requestLine(id, "tools/call", callParams("shell", args{"command": d.echo("later")}, p.meta())))
		a := p.answer(r, "a later call with the id "+id)
		p.worked(a, "shell", args{"command": "(with the id " + id + ")"})
	}
	r := p.ask(s, "shell", args{"command": d.then(d.touch(p.path("ready")), d.sleep())})
	p.eventually("the command to run", func() bool { return p.exists("ready") || answered(r) })
	s.cancel(r)
	s.cancel(r)
	p.cancelled(r, "a call that is cancelled twice")
	again := s.Expect(r.ID)
	_ = s.Send(requestLine(r.ID, "tools/call", callParams("shell", args{"command": d.echo("again")}, p.meta())))
	p.worked(p.answer(again, "a call with the id of a cancelled one"), "shell", nil)
}

func checkCancelIllFormed(p *probe) {
	s := p.begin(launch{})
	d := p.facts.dialect
	r := p.ask(s, "shell", args{"command": d.then(d.touch(p.path("ready")), d.await(p.path("go")))})
	p.eventually("the command to run", func() bool { return p.exists("ready") || answered(r) })
	for _, params := range []string{`null`, `{}`, `[]`, `"1"`, `{"requestId":null}`, `{"requestId":{}}`, `{"requestId":[1]}`, `{"requestId":true}`, `{"requestId":1.5}`} {
		_ = s.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + params + `}`)
	}
	_ = s.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	p.ping(s, "ill-formed cancels")
	if answered(r) {
		p.fail("an ill-formed cancel ended a call: %s", excerpt(r.Answer.Raw))
	}
	p.write("go", "")
	p.worked(p.answer(r, "shell"), "shell", args{"command": "(waits)"})
}

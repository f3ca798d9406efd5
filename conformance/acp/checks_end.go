package acp

import (
	"path/filepath"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func endChecks() []Check {
	busy := []need{needShell, needProcesses}
	return []Check{
		{ID: "end.eof", Requirements: []int{43}, run: checkEOF, Text: "when stdin ends the agent ends, without an error"},
		{ID: "end.eof-running", Requirements: []int{43}, needs: busy, run: checkEOFRunning, Text: "when stdin ends during a turn, nothing that it started is left"},
		{ID: "end.sigterm", Requirements: []int{43}, needs: busy, run: checkTerm, Text: "SIGTERM ends the agent and everything it started"},
		{ID: "end.sigkill", Requirements: []int{43}, needs: busy, run: checkKill, Text: "SIGKILL of the agent ends everything it started"},
		{ID: "end.broken-pipe", Requirements: []int{43}, needs: busy, run: checkBrokenPipe, Text: "a client that is gone leaves nothing running"},
	}
}

func checkEOF(p *probe) {
	a := p.begin(launch{})
	p.open(a, p.dir)
	p.leave(a)
	if a.Exit != nil {
		p.problem("it ends with %v", a.Exit)
	}
}

// busy is an agent in a turn whose command tries to survive.
func (p *probe) busy() (*agent, runaway) {
	a := p.begin(launch{})
	s := p.open(a, p.mkdir("work"))
	return a, p.lets(s, `sleep 600 & setsid sh -c '{one}; exec sleep 600' </dev/null >/dev/null 2>&1 & nohup sh -c 'trap "" TERM HUP; {two}; sleep 600' </dev/null >/dev/null 2>&1 & {both then}; {ready}; sleep 600`)
}

// over waits for the end of an agent and of all that it started.
func (p *probe) over(a *agent, r runaway, after string) {
	if !a.WaitEnd(p.ctx, p.o.Timeout) {
		p.problem("it still runs %v after %s", p.o.Timeout, after)
	}
	p.gone(r, after)
	p.gone(runaway{mark: a.Mark}, after+", of the agent's own,")
}

func checkEOFRunning(p *probe) {
	a, r := p.busy()
	a.CloseStdin()
	p.over(a, r, "the end of stdin")
}

func checkTerm(p *probe) {
	if !harness.CanTerminate {
		p.skip("this system has no SIGTERM")
	}
	a, r := p.busy()
	if err := a.Terminate(); err != nil {
		p.fail("SIGTERM: %v", err)
	}
	p.over(a, r, "SIGTERM")
}

func checkKill(p *probe) {
	a, r := p.busy()
	if err := a.Kill(); err != nil {
		p.fail("SIGKILL: %v", err)
	}
	a.CloseStdin() // as the end of a client would
	p.over(a, r, "SIGKILL")
}

func checkBrokenPipe(p *probe) {
	a, r := p.busy()
	a.CloseStdout()
	a.Tell("session/cancel", map[string]any{"sessionId": "conformance-no-such-session"})
	_ = a.Send(harness.RequestLine(`"into the void"`, noSuch, map[string]any{}))
	a.CloseStdin()
	p.over(a, r, "the end of stdout and stdin")
}

// maxFrame is what clients in use read as one frame.
const maxFrame = 10 << 20

func boundChecks() []Check {
	return []Check{
		{ID: "bound.output", Requirements: []int{42, 44}, needs: []need{needShell}, run: checkBoundOutput, Text: "a command that prints 100 MB costs bounded memory, and its last words are shown or their loss is said"},
		{ID: "bound.line", Requirements: []int{42, 44}, needs: []need{needShell}, run: checkBoundLine, Text: "so does one line of 30 MB"},
		{ID: "bound.sessions", Requirements: []int{44}, needs: []need{needModel, needClose, needProcesses}, run: checkBoundSessions, Text: "sessions that were opened and closed leave no processes, descriptors or threads"},
	}
}

// moreMemory is what an agent may need for output of any size.
const moreMemory = 256 << 20

func (p *probe) prints(command string) {
	a := p.begin(launch{})
	s := p.open(a, p.mkdir("work"))
	p.ran(s, "echo small") // so that everything has started
	before := harness.UsageOf(a.PID)
	_, c := p.ran(s, command+"; echo; echo the-last-wo''rds")
	after := harness.UsageOf(a.PID)
	if harness.CanSeeProcesses && after.Peak > max(before.Peak, before.Resident)+moreMemory {
		p.problem("the agent's process had %d MiB at most before and %d MiB while the output came", before.Peak>>20, after.Peak>>20)
	}
	text := strings.ToLower(c.text + c.output)
	if !strings.Contains(text, "the-last-words") && !strings.Contains(text, "truncated") && !strings.Contains(text, "omitted") {
		p.problem("the tool call shows neither the last words nor that something is missing: %s", harness.Excerpt(c.text))
	}
	p.works(s, "much output")
}

func checkBoundOutput(p *probe) {
	p.prints("yes 0123456789012345678901234567890123456789 | head -c 100000000")
}

func checkBoundLine(p *probe) { p.prints("head -c 30000000 /dev/zero | tr '\\000' x") }

// What may grow without being called growth: pools, buffers, the runtime.
const (
	moreProcesses   = 2
	moreDescriptors = 12
	moreThreads     = 40
)

func checkBoundSessions(p *probe) {
	a := p.begin(launch{})
	once := func() {
		s := p.open(a, p.mkdir("work"))
		p.done(p.prompt(s, says("short")), "end_turn")
		p.good(a.ask("session/close", byID(s)), "session/close")
	}
	once()
	once()
	p.settled(a)
	before, processes := harness.UsageOf(a.PID), len(harness.Marked(a.Mark))
	const times = 4
	for range times {
		once()
	}
	p.settled(a)
	after := harness.UsageOf(a.PID)
	for _, g := range []struct {
		what                string
		before, after, more int
	}{
		{"processes", processes, len(harness.Marked(a.Mark)), moreProcesses},
		{"descriptors", before.Descriptors, after.Descriptors, moreDescriptors},
		{"threads", before.Threads, after.Threads, moreThreads},
	} {
		if g.after > g.before+g.more {
			p.problem("over %d sessions the %s grew from %d to %d", times, g.what, g.before, g.after)
		}
	}
}

// settled waits until an agent has ended what it is about to end, as far as can be seen.
func (p *probe) settled(a *agent) {
	for range 20 {
		n := len(harness.Marked(a.Mark))
		p.pause()
		if len(harness.Marked(a.Mark)) == n {
			return
		}
	}
}

func overallChecks() []Check {
	tells := func(id string) func(*probe) { return func(p *probe) { p.tells(id) } }
	return []Check{
		{ID: "overall.stdout", Requirements: []int{1}, run: checkStdout, Text: "nothing but JSON-RPC messages came on stdout, in the whole run"},
		{ID: "overall.answers", Requirements: []int{2}, run: checkAnswers, Text: "no request was answered twice"},
		{ID: "overall.schema", Requirements: []int{7}, run: tells("overall.schema"), Text: "every message had the shape of its method"},
		{ID: "overall.own-fields", Requirements: []int{6}, run: tells("overall.own-fields"), Text: "no message had fields of the agent's own outside _meta"},
		{ID: "overall.paths", Requirements: []int{39}, run: tells("overall.paths"), Text: "every path was absolute, and lines counted from 1"},
		{ID: "overall.client-methods", Requirements: []int{10}, run: tells("overall.client-methods"), Text: "nothing was asked of the client that it did not offer"},
		{ID: "overall.unoffered", Requirements: []int{10}, run: tells("overall.unoffered"), Text: "updates that a client has to offer are told to no other"},
		{ID: "overall.early", Requirements: []int{40}, run: tells("overall.early"), Text: "no update came before the client knew its session"},
		{ID: "overall.late", Requirements: []int{24, 41}, run: tells("overall.late"), Text: "nothing of a turn came after its response"},
		{ID: "overall.tool-calls", Requirements: []int{28}, run: tells("overall.tool-calls"), Text: "no tool call was updated that was not announced"},
		{ID: "overall.tool-ends", Requirements: []int{28}, run: tells("overall.tool-ends"), Text: "no turn ended, cancelled or not, with a tool call without a final status"},
		{ID: "overall.size", Requirements: []int{42}, run: tells("overall.size"), Text: "no frame was larger than clients in use can read"},
	}
}

// tells tells what was noticed during all checks. A run limited to this one has a
// turn to look at.
func (p *probe) tells(id string) {
	p.looks()
	first, n := p.found.of(id)
	for _, text := range first {
		p.problem("%s", text)
	}
	if n > len(first) {
		p.problem("and %d more", n-len(first))
	}
}

// looks makes sure that there is something to judge.
func (p *probe) looks() {
	s := p.session()
	if p.facts.noShell == "" && len(p.agents) < 3 {
		t := p.prompt(s, runs("echo look"), says("done"))
		p.frame(t.request, "the prompt")
		p.pause()
		r := p.prompt(p.fresh(), runs(": > '"+filepath.Join(p.dir, "look")+"'; sleep 600"))
		p.eventually("the command to run", func() bool { return exists(filepath.Join(p.dir, "look")) || r.Answered() })
		r.session.cancel()
		p.frame(r.request, "the prompt that was cancelled")
		p.pause()
	}
}

func checkStdout(p *probe) {
	p.looks()
	for _, a := range p.agents {
		for _, bad := range a.Bad() {
			if !strings.Contains(bad, `object: "[{`) { // the answer to a batch
				p.problem("%s", bad)
			}
		}
	}
}

func checkAnswers(p *probe) {
	p.looks()
	for _, a := range p.agents {
		for _, f := range a.Twice() {
			p.problem("a second answer: %s", harness.Excerpt(f.Raw))
		}
	}
}

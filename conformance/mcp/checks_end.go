package mcp

import (
	"fmt"
	"slices"
	"time"

	"gander.dev/gander/conformance/harness"
)

func endChecks() []Check {
	return []Check{
		{ID: "end.eof", Requirements: []int{4, 62}, run: checkEOF, Text: "when stdin ends the server ends, without an error"},
		{ID: "end.eof-running", Requirements: []int{59, 38}, needs: []string{"shell"}, run: checkEOFRunning, Text: "when stdin ends while commands run, the server ends and nothing that they started is left"},
		{ID: "end.sigterm", Platform: "unix", Requirements: []int{59}, needs: []string{"shell"}, run: checkTerm, Text: "SIGTERM ends the server and everything that it started"},
		{ID: "end.sigkill", Requirements: []int{59}, needs: []string{"shell"}, run: checkKill, Text: "SIGKILL of the server ends everything that it started"},
		{ID: "end.broken-pipe", Requirements: []int{59, 28}, needs: []string{"shell"}, run: checkBrokenPipe, Text: "a client that closed its end of stdout leaves nothing running"},
	}
}

// An escape is what a command does to survive.
type escape struct{ name, command string }

// escapes make {ready} when they have done it. Each runs until it is killed.
func (p *probe) escapes() []escape {
	if p.windows() {
		sleep := p.facts.dialect.sleep()
		if p.facts.dialect == powershell {
			return []escape{{"a child", "Start-Process -NoNewWindow cmd -ArgumentList '/c','ping -n 600 127.0.0.1'; {ready}; " + sleep}}
		}
		return []escape{
			{"a child", "start /b ping -n 600 127.0.0.1 >nul& {ready}& " + sleep},
			{"a detached grandchild", `start "" /min cmd /c "ping -n 600 127.0.0.1 >nul"& {ready}& ` + sleep},
		}
	}
	return []escape{
		{"forks", `sleep 600 & sleep 600 & {ready}; wait`},
		{"leaves the session", `setsid sh -c "{ready}; exec sleep 600" </dev/null >/dev/null 2>&1 & sleep 600`},
		{"ignores TERM", `trap '' TERM INT HUP; {ready}; while :; do sleep 1; done`},
		{"forks twice", `( ( setsid sh -c "trap '' TERM HUP; {ready}; sleep 600" </dev/null >/dev/null 2>&1 & ) & ); sleep 600`},
		{"nohup", `nohup sleep 600 </dev/null >/dev/null 2>&1 & {ready}; wait`},
		{"many", `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 600 & done; {ready}; wait`},
		{"keeps forking", `setsid sh -c "{ready}; "'i=0; while [ $i -lt 400 ]; do i=$((i+1)); (setsid sleep 600 &) ; sleep 0.01; done' </dev/null >/dev/null 2>&1 & sleep 600`},
	}
}

// A runaway is an escape that runs.
type runaway struct {
	escape
	mark    string
	request *request
}

// letRun starts commands that try to survive and returns when all of them run.
func (p *probe) letRun(s *server, escapes ...escape) []runaway {
	if !harness.CanSeeProcesses {
		p.skip("the processes of this system cannot be seen from here; run the harness on Linux")
	}
	p.settle(s)
	var all []runaway
	for i, e := range escapes {
		ready := fmt.Sprintf("ready%d-%d", s.Seen(), i)
		mark := p.newMark()
		command := p.facts.dialect.carry(mark, expand(e.command, "{ready}", p.facts.dialect.touch(p.path(ready))))
		r := p.ask(s, "shell", args{"command": command})
		p.eventually("the command that "+e.name+" to run", func() bool { return p.exists(ready) || answered(r) })
		if answered(r) {
			p.fail("the command that %s ended: %s", e.name, excerpt(p.frame(r, "shell").Raw))
		}
		p.eventually("the processes of the command that "+e.name, func() bool { return len(p.left(s, mark)) > 0 || answered(r) })
		if answered(r) {
			p.fail("the command that %s ended: %s", e.name, excerpt(p.frame(r, "shell").Raw))
		}
		all = append(all, runaway{e, mark, r})
	}
	return all
}

// settle notes what runs beside the server before any command does, where a
// command cannot be told from it by its mark.
func (p *probe) settle(s *server) {
	if !p.windows() || s.baseline != nil {
		return
	}
	p.callOn(s, "shell", args{"command": p.facts.dialect.echo("settle")})
	s.baseline = map[int]bool{}
	for _, q := range harness.Marked(s.Mark) {
		s.baseline[q.PID] = true
	}
}

// left is what runs of a command. Wine's processes do not show their environment:
// there it is whatever the server did not have before.
func (p *probe) left(s *server, mark string) []process {
	if !p.windows() {
		return harness.Marked(mark)
	}
	var found []process
	for _, q := range harness.Marked(s.Mark) {
		if !s.baseline[q.PID] {
			found = append(found, q)
		}
	}
	return found
}

// nothingLeft waits until nothing of the commands runs on.
func (p *probe) nothingLeft(s *server, after string, all []runaway) {
	const grace = 10 * time.Second
	begun := time.Now() // for all of them together
	for _, r := range all {
		left := p.left(s, r.mark)
		for len(left) > 0 && time.Since(begun) < min(grace, p.o.Timeout) {
			time.Sleep(10 * time.Millisecond)
			left = p.left(s, r.mark)
		}
		if left = p.begun(s, left); len(left) > 0 {
			p.problem("after %s a command that %s left %v", after, r.name, left)
		}
	}
}

// begun leaves out, of what a command left under wine, what never began to run: a
// process that wine's server took for ended while it was being made waits for a word
// of that server without end. Windows has no such processes.
func (p *probe) begun(s *server, left []process) []process {
	if !p.windows() {
		return left
	}
	return slices.DeleteFunc(left, func(q process) bool {
		if !harness.Stillborn(q.PID) {
			return false
		}
		s.baseline[q.PID] = true // for the checks of later commands
		return true
	})
}

func checkEOF(p *probe) {
	s := p.begin(launch{})
	p.tools(s)
	s.CloseStdin()
	if !s.WaitEnd(p.ctx, p.o.Timeout) {
		p.fail("it still runs %v after its stdin ended", p.o.Timeout)
	}
	if s.Exit != nil {
		p.problem("it ends with %v", s.Exit)
	}
}

func checkEOFRunning(p *probe) {
	s := p.begin(launch{})
	all := p.letRun(s, p.escapes()...)
	s.CloseStdin()
	p.ends(s, "the end of stdin", all)
}

func (p *probe) ends(s *server, after string, all []runaway) {
	if !s.WaitEnd(p.ctx, p.o.Timeout) {
		p.problem("it still runs %v after %s", p.o.Timeout, after)
	}
	p.nothingLeft(s, after, all)
}

func checkTerm(p *probe) {
	if !harness.CanTerminate {
		p.skip("this system has no SIGTERM")
	}
	s := p.begin(launch{})
	all := p.letRun(s, p.escapes()...)
	if err := s.Terminate(); err != nil {
		p.fail("SIGTERM: %v", err)
	}
	p.ends(s, "SIGTERM", all)
}

func checkKill(p *probe) {
	s := p.begin(launch{})
	all := p.letRun(s, p.escapes()...)
	if err := s.Kill(); err != nil {
		p.fail("SIGKILL: %v", err)
	}
	s.CloseStdin() // as the end of a client would; and where a container is between
	p.ends(s, "SIGKILL", all)
}

func checkBrokenPipe(p *probe) {
	s := p.begin(launch{})
	all := p.letRun(s, p.escapes()[0])
	s.CloseStdout()
	s.Tell("ping", nil)
	_ = s.Send(requestLine(`"into the void"`, "ping", nil))
	s.CloseStdin()
	p.ends(s, "the end of stdout and stdin", all)
}

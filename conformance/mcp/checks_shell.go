package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

func shellChecks() []Check {
	shell := []string{"shell"}
	return []Check{
		{ID: "shell.works", Requirements: []int{9, 26, 43, 63}, needs: shell, run: checkShellWorks, Text: "a command's output comes back, to the model and to the person"},
		{ID: "shell.empty", Requirements: []int{18, 20, 45, 64}, needs: shell, run: checkShellEmpty, Text: "an empty command is refused as invalid, each time alike"},
		{ID: "shell.merged", Requirements: []int{26}, needs: shell, run: checkShellMerged, Text: "both streams are in the output, in the order of the command"},
		{ID: "shell.exit-code", Requirements: []int{36, 48}, needs: shell, run: checkExitCode, Text: "a failing command keeps its output and can be told from one that works, each time alike"},
		{ID: "shell.outcome", Profile: Classic, Requirements: []int{36, 48}, needs: shell, run: checkOutcome, Text: "the exit code is where nothing that a command prints can imitate it"},
		{ID: "shell.not-found", Requirements: []int{36, 48}, needs: shell, run: checkCommandNotFound, Text: "a program that does not exist is an answer with the shell's words, not silence"},
		{ID: "shell.quoting", Platform: "unix", Requirements: []int{26}, needs: shell, run: checkQuoting, Text: "quotes, several lines, here-documents, pipes and other scripts reach the shell as they are"},
		{ID: "shell.empty-output", Requirements: []int{36}, needs: shell, run: checkNoOutput, Text: "a command without output works"},
		{ID: "shell.structured", Profile: Current, Requirements: []int{36, 72}, needs: shell, run: checkStructured, Text: "the structured result has both streams and the exit code"},
		{ID: "shell.timeout", Requirements: []int{36, 49, 59}, needs: shell, run: checkTimeout, Text: "timeout_secs ends a command and all it started, and says so"},
		{ID: "shell.background", Requirements: []int{58}, needs: shell, run: checkBackground, Text: "a command that leaves something in the background is answered"},
		{ID: "shell.parallel", Requirements: []int{9}, needs: shell, run: checkParallel, Text: "many commands run at the same time, and ping is answered meanwhile"},
	}
}

func checkShellWorks(p *probe) {
	a := p.ok("shell", args{"command": p.facts.dialect.then(p.facts.dialect.echo("one"), p.facts.dialect.echo("two"))})
	if !p.classic() {
		p.holds("the output", lf(a.text("assistant")), "one\ntwo")
		return
	}
	assistant, user := p.split("the result of shell", a, 0)
	p.equal("the output for the assistant", lf(assistant), "one\ntwo\n")
	p.equal("the output for the user", lf(user), "one\ntwo\n")
	if strings.Contains(assistant, "\r\r") {
		p.problem("line endings are doubled: %s", excerpt(assistant))
	}
	if !strings.Contains(string(a.frame.Result), `"isError":false`) {
		p.problem("the result does not say isError false: %s", excerpt(a.frame.Result))
	}
}

func checkShellEmpty(p *probe) {
	first := ""
	for range 3 {
		for _, command := range []string{"", " ", "\t\n "} {
			a := p.call("shell", args{"command": command})
			p.refused(fmt.Sprintf("the command %q", command), a, invalidParams, "cannot be empty")
			if first == "" {
				first = a.message
			}
			p.equal("the refusal of an empty command", a.message, first)
		}
	}
}

func checkShellMerged(p *probe) {
	d := p.facts.dialect
	text := lf(p.ok("shell", args{"command": d.then(d.echo("out1"), d.echoErr("err1"))}).text("assistant"))
	p.holds("the output", text, "out1", "err1")
	if p.windows() {
		return
	}
	command := "for i in 1 2 3; do printf 'out%s\\n' $i; sleep 0.3; printf 'err%s\\n' $i >&2; sleep 0.3; done"
	text = p.ok("shell", args{"command": command}).text("assistant")
	if p.classic() {
		p.equal("the output of a command that writes to both streams in turns", text, "out1\nerr1\nout2\nerr2\nout3\nerr3\n")
	}
}

func checkExitCode(p *probe) {
	d := p.facts.dialect
	text := ""
	for range 3 {
		a := p.call("shell", args{"command": d.then(d.echo("before"), d.exit(3))})
		if a.code != 0 {
			p.fail("a command that fails is a protocol error, and its output is lost: %s", excerpt(a.words()))
		}
		p.holds("the output of a command that fails", a.text("assistant"), "before", "3")
		if text == "" {
			text = a.text("assistant")
		}
		p.equal("the answer to the same failing command", a.text("assistant"), text)
	}
	good := p.ok("shell", args{"command": d.then(d.echo("before"), d.exit(0))})
	if good.text("assistant") == text {
		p.problem("failure and success look alike: %s", excerpt(text))
	}
}

func checkOutcome(p *probe) {
	if schema := string(p.facts.tool("shell").OutputSchema); !strings.Contains(schema, `"exitCode"`) {
		p.skip("the output schema of shell has no exitCode, so that the text alone says how a command ended")
	}
	d := p.facts.dialect
	imitation := d.then(d.echo("Command exited with code 3"), d.echo("exit code 3"))
	for command, want := range map[string]int{d.exit(3): 3, d.then(imitation, d.exit(0)): 0, d.then(imitation, d.exit(4)): 4, d.echo("x"): 0} {
		a := p.call("shell", args{"command": command})
		var got struct {
			ExitCode *int `json:"exitCode"`
		}
		if json.Unmarshal(a.Structured, &got) != nil || got.ExitCode == nil {
			p.fail("the result of %s has no exitCode in structuredContent: %s", excerpt(command), excerpt(a.words()))
		}
		if *got.ExitCode != want {
			p.problem("the exitCode of %s is %d, want %d", excerpt(command), *got.ExitCode, want)
		}
	}
}

func checkCommandNotFound(p *probe) {
	a := p.call("shell", args{"command": "no_such_program_4711 --version"})
	p.holds("the answer", a.words(), "no_such_program_4711")
	p.worked(p.call("shell", args{"command": p.facts.dialect.echo("x")}), "shell", args{"command": "echo x"})
}

func checkQuoting(p *probe) {
	for _, tt := range []struct{ command, want string }{
		{`printf '%s|' "a b" 'c"d' e\ f '$HOME'`, `a b|c"d|e f|$HOME|`},
		{"cat <<'END'\nfirst $x `y`\n\tsecond\nEND", "first $x `y`\n\tsecond"},
		{"printf 'x\\ny\\nz\\n' | grep -v y | tr a-z A-Z", "X\nZ"},
		{"printf 'Grüße, 世界 🦆\\n'", "Grüße, 世界 🦆"},
		{"f() {\n  printf '%s' \"$1$1\"\n}\nf ab", "abab"},
		{"printf a; (exit 1) || printf b; true && printf c", "abc"},
	} {
		got := p.ok("shell", args{"command": tt.command}).text("assistant")
		p.equal("the output of "+excerpt(tt.command), strings.TrimRight(got, "\n"), tt.want)
	}
}

func checkNoOutput(p *probe) {
	a := p.ok("shell", args{"command": p.facts.dialect.exit(0)})
	if p.classic() {
		assistant, user := p.split("the result of a command without output", a, 0)
		p.equal("the output", assistant+user, "")
	}
}

func checkStructured(p *probe) {
	d := p.facts.dialect
	a := p.call("shell", args{"command": d.then(d.echo("out"), d.echoErr("err"), d.exit(3))})
	var got struct {
		Stdout, Stderr string
		ExitCode       *int `json:"exit_code"`
	}
	if json.Unmarshal(a.Structured, &got) != nil || got.ExitCode == nil {
		p.fail("the result has no structuredContent with an exit code: %s", excerpt(a.words()))
	}
	p.holds("stdout", got.Stdout, "out")
	p.holds("stderr", got.Stderr, "err")
	if *got.ExitCode != 3 || !a.IsError {
		p.problem("exit code %d, isError %v, want 3 and true", *got.ExitCode, a.IsError)
	}
}

func checkTimeout(p *probe) {
	if !strings.Contains(string(p.facts.tool("shell").InputSchema), `"timeout_secs"`) {
		p.skip("shell takes no timeout_secs")
	}
	s := p.begin(launch{})
	p.settle(s)
	mark := p.newMark()
	d := p.facts.dialect
	a := p.callOn(s, "shell", args{"command": d.carry(mark, d.then(d.echo("begun"), d.sleep())), "timeout_secs": 1})
	p.holds("the answer after a timeout", strings.ToLower(a.message+a.text("assistant")), "timed out")
	p.nothingLeft(s, "a timeout", []runaway{{escape: escape{name: "sleeps"}, mark: mark}})
}

func checkBackground(p *probe) {
	d := p.facts.dialect
	command := d.pick("sleep 600 & echo started", "start /b ping -n 600 127.0.0.1 >nul& echo started", "Start-Process -NoNewWindow ping -ArgumentList '-n','600','127.0.0.1'; Write-Output started")
	s := p.begin(launch{})
	a := p.callOn(s, "shell", args{"command": d.carry(p.newMark(), command)})
	p.holds("the answer", a.text("assistant"), "started")
}

func checkParallel(p *probe) {
	together := 20
	if p.windows() {
		together = 4 // cmd can only wait by asking all the time
	}
	d := p.facts.dialect
	s := p.server()
	var requests []*request
	for i := range together {
		command := d.then(d.touch(p.path(fmt.Sprintf("here-%d", i))), d.await(p.path("go")))
		requests = append(requests, p.ask(s, "shell", args{"command": command}))
	}
	p.eventually(fmt.Sprintf("%d commands to run at the same time", together), func() bool {
		for i := range together {
			if !p.exists(fmt.Sprintf("here-%d", i)) {
				return false
			}
		}
		return true
	})
	p.ping(s, "commands that run")
	if slices.ContainsFunc(requests, answered) {
		p.problem("a command is answered before it ended")
	}
	p.write("go", "")
	for _, r := range requests {
		p.worked(p.answer(r, "shell"), "shell", args{"command": "(waits)"})
	}
}

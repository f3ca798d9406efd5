package mcp

import (
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
)

func environmentChecks() []Check {
	shell := []string{"shell"}
	return []Check{
		{ID: "environment.stdin", Requirements: []int{22}, needs: shell, run: checkStdin, Text: "a command that reads stdin gets its end at once"},
		{ID: "environment.terminal", Platform: "unix", Requirements: []int{22, 53}, needs: shell, run: checkNoTerminal, Text: "no stream is a terminal, and there is none to open"},
		{ID: "environment.variables", Profile: Classic, Requirements: []int{22, 23}, needs: shell, run: checkVariables, Text: "GOOSE_TERMINAL, AGENT, GIT_TERMINAL_PROMPT and GIT_PAGER are set, over what was there before"},
		{ID: "environment.editors", Profile: Classic, Platform: "unix", Requirements: []int{23, 52}, needs: shell, run: checkEditors, Text: "every editor variable names something that fails at once and says why"},
		{ID: "environment.git-editor", Requirements: []int{23, 52}, Platform: "unix", needs: shell, run: checkGitEditor, Text: "git commit without a message fails instead of waiting for an editor"},
		{ID: "environment.git-prompt", Requirements: []int{23, 52}, Platform: "unix", needs: shell, run: checkGitPrompt, Text: "git does not ask for a password"},
	}
}

func checkStdin(p *probe) {
	d := p.facts.dialect
	command := d.then(d.pick("cat", "more", "[Console]::In.ReadToEnd()"), d.echo("read"))
	p.holds("the output", p.ok("shell", args{"command": command}).text("assistant"), "read")
}

func checkNoTerminal(p *probe) {
	command := `for fd in 0 1 2; do test -t $fd && echo "terminal $fd"; done; (: </dev/tty) 2>/dev/null && echo "terminal open"; echo done`
	text := p.ok("shell", args{"command": command}).text("assistant")
	p.equal("what is a terminal", strings.TrimSpace(text), "done")
}

func checkVariables(p *probe) {
	s := p.begin(launch{env: []string{"GIT_TERMINAL_PROMPT=1", "AGENT=other", "GIT_PAGER=less", "GOOSE_TERMINAL=0"}})
	for name, want := range map[string]string{"GOOSE_TERMINAL": "1", "AGENT": "goose", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"} {
		a := p.callOn(s, "shell", args{"command": p.facts.dialect.getenv(name)})
		p.equal(name, strings.TrimSpace(a.text("assistant")), "["+want+"]")
	}
}

func checkEditors(p *probe) {
	s := p.begin(launch{env: []string{"EDITOR=false", "VISUAL=false", "GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false"}})
	for _, name := range []string{"EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"} {
		// As git does it: the variable is a command line to which a file is added.
		a := p.callOn(s, "shell", args{"command": `sh -c "$` + name + ` \"\$@\"" x file; echo "code $?"`})
		text := a.text("assistant")
		if strings.Contains(text, "code 0") {
			p.problem("%s succeeds: %s", name, excerpt(text))
		}
		if !saysWhy.MatchString(text) {
			p.problem("%s does not say that there is no editor: %s", name, excerpt(text))
		}
	}
}

// needGit skips a check where the server has no git.
func (p *probe) needGit() {
	if a := p.call("shell", args{"command": "git --version"}); !strings.Contains(a.text("assistant"), "git version") {
		p.skip("the server's system has no git")
	}
}

func checkGitEditor(p *probe) {
	p.needGit()
	s := p.begin(launch{env: []string{"EDITOR=cat", "VISUAL=cat"}}) // which would wait for nobody, and not fail
	command := `git init -q repo && cd repo && git -c user.name=x -c user.email=x@y commit --allow-empty; echo "code $?"; git rev-parse -q --verify HEAD`
	text := p.callOn(s, "shell", args{"command": command}).text("assistant")
	p.holds("the answer", text, "code ")
	if strings.Contains(text, "code 0") {
		p.problem("git commit works without a message: %s", excerpt(text))
	}
	if p.classic() && !saysWhy.MatchString(text) {
		p.problem("git does not say that there is no editor: %s", excerpt(text))
	}
}

// saysWhy matches what stands in for an editor says.
var saysWhy = regexp.MustCompile(`(?i)editor|interactive`)

func checkGitPrompt(p *probe) {
	p.needGit()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.fail("%v", err)
	}
	locked := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="conformance"`)
		w.WriteHeader(http.StatusUnauthorized)
	})}}
	locked.Start()
	defer locked.Close()
	text := p.ok("shell", args{"command": "printf '[%s]' \"$GIT_TERMINAL_PROMPT\"; git ls-remote " + locked.URL + "/repo.git; echo \"code $?\""}).text("assistant")
	if strings.Contains(text, "code 0") || !strings.Contains(text, "code ") {
		p.problem("git ls-remote of a locked repository: %s", excerpt(text))
	}
	if p.classic() {
		p.holds("the answer", text, "[0]")
	}
}

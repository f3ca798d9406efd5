package mcp

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func telemetryChecks() []Check {
	return []Check{
		{ID: "telemetry.secrets", Requirements: []int{55}, needs: []string{"shell"}, run: checkTelemetrySecrets, Text: "neither stderr nor files below home hold commands, their output, or the values of variables that name keys"},
		{ID: "telemetry.events", Requirements: []int{56, 57}, needs: []string{"shell"}, run: checkTelemetryEvents, Text: "structured events tell of a call's end with its duration, and of a cancel"},
	}
}

func overallChecks() []Check {
	return []Check{
		{ID: "overall.stdout", Requirements: []int{4, 45}, run: checkStdout, Text: "in all of the run, every line on stdout was a valid JSON-RPC message, and every error had a code and a message"},
		{ID: "overall.answers", Requirements: []int{4}, run: checkAnswers, Text: "in all of the run, no request was answered twice"},
	}
}

func checkTelemetrySecrets(p *probe) {
	const inEnvironment, inOutput, inCommand = "canary-environment-4711", "canary-output-4711", "canary-command-4711"
	home := p.host("home")
	if err := os.Mkdir(home, 0o755); err != nil {
		p.fail("%v", err)
	}
	env := []string{"CONFORMANCE_API_KEY=" + inEnvironment, "CONFORMANCE_TOKEN=" + inEnvironment}
	if !p.windows() {
		env = append(env, "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_DATA_HOME="+home)
	}
	s := p.begin(launch{env: env})
	d := p.facts.dialect
	p.write("canary.txt", inOutput+"\n")
	p.callOn(s, "shell", args{"command": d.show("canary.txt")})
	p.callOn(s, "shell", args{"command": d.then(d.echo(inCommand), d.exit(3))})
	p.callOn(s, "shell", args{"command": ""})
	r := p.ask(s, "shell", args{"command": d.then(d.echo(inCommand), d.touch(p.path("ready")), d.sleep())})
	p.eventually("the command to run", func() bool { return p.exists("ready") || answered(r) })
	s.cancel(r)
	p.cancelled(r, "a command that sleeps")
	s.CloseStdin()
	s.WaitEnd(p.ctx, p.o.Timeout)
	for _, canary := range []string{inEnvironment, inOutput, inCommand} {
		if strings.Contains(s.Complaints(), canary) {
			p.problem("stderr holds %s", canary)
		}
		for _, file := range filesWith(home, canary) {
			p.problem("%s holds %s", file, canary)
		}
	}
}

// filesWith are the files below dir that hold a text.
func filesWith(dir, text string) []string {
	var found []string
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), text) {
				found = append(found, name)
			}
		}
		return nil
	})
	return found
}

// events are the JSON objects among the lines of stderr.
func events(stderr string) []map[string]any {
	var all []map[string]any
	for line := range strings.Lines(stderr) {
		var event map[string]any
		if json.Unmarshal([]byte(line), &event) == nil {
			all = append(all, event)
		}
	}
	return all
}

func checkTelemetryEvents(p *probe) {
	s := p.begin(launch{})
	d := p.facts.dialect
	p.callOn(s, "shell", args{"command": d.echo("x")})
	r := p.ask(s, "shell", args{"command": d.then(d.touch(p.path("ready")), d.sleep())})
	p.eventually("the command to run", func() bool { return p.exists("ready") || answered(r) })
	s.cancel(r)
	p.cancelled(r, "a command that sleeps")
	s.CloseStdin()
	s.WaitEnd(p.ctx, p.o.Timeout)
	all := events(s.Complaints())
	if len(all) == 0 {
		p.skip("the server writes no JSON events to stderr; for gander: --log-level debug --log-format json")
	}
	timed, cancelled := false, false
	for _, event := range all {
		for key, value := range event {
			name := strings.ToLower(key)
			_, number := value.(float64)
			timed = timed || number && (strings.Contains(name, "duration") || strings.Contains(name, "took") || strings.Contains(name, "elapsed") || strings.HasSuffix(name, "ms"))
		}
		cancelled = cancelled || strings.Contains(strings.ToLower(marshal(event)), "cancel")
	}
	if !timed {
		p.problem("of %d events none has a duration", len(all))
	}
	if !cancelled {
		p.problem("of %d events none tells of the cancel", len(all))
	}
}

func checkStdout(p *probe) {
	p.tools(p.server())
	for _, s := range p.servers {
		for _, bad := range s.Bad() {
			p.problem("%s", bad)
		}
	}
}

func checkAnswers(p *probe) {
	s := p.begin(launch{})
	for range 20 {
		p.ask(s, "no_such_tool", args{})
		p.ping(s, "an unknown tool")
	}
	p.tools(s)
	p.ping(s, "tools/list")
	for _, s := range p.servers {
		for _, f := range s.Twice() {
			p.problem("a second answer: %s", excerpt(f.Raw))
		}
	}
}

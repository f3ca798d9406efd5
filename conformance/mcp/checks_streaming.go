package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

func streamingChecks() []Check {
	shell := []string{"shell"}
	return []Check{
		{ID: "streaming.shape", Requirements: []int{27}, needs: shell, run: checkStreamShape, Text: "a line is a logging notification of level info with type shell_output, its stream and its text"},
		{ID: "streaming.declared", Requirements: []int{7, 27}, needs: shell, run: checkLoggingDeclared, Text: "a server that sends logging notifications declares logging"},
		{ID: "streaming.incremental", Requirements: []int{27}, needs: shell, run: checkIncremental, Text: "a line arrives while its command still runs"},
		{ID: "streaming.partial", Requirements: []int{27}, Platform: "unix", needs: shell, run: checkPartial, Text: "a line that has not ended, such as a question or a progress bar, arrives while its command still runs"},
		{ID: "streaming.lossless", Requirements: []int{27}, needs: shell, run: checkLossless, Text: "of two thousand lines none is lost, none out of order, and none after the response"},
		{ID: "streaming.slow-client", Requirements: []int{28}, needs: shell, run: checkSlowClient, Text: "a client that does not read for a while does not break the command"},
		{ID: "streaming.progress", Requirements: []int{27}, needs: shell, run: checkProgress, Text: "progress notifications come only for a token, carry it, and increase"},
	}
}

// output is the data of a notification.
type output struct {
	Type, Stream, Output string
}

// outputs are what a server has streamed after frame n.
func (s *server) outputs(after int) []output {
	var all []output
	for _, f := range s.Notifications("notifications/message", after) {
		var params struct{ Data output }
		if json.Unmarshal(f.Params, &params) == nil && params.Data.Type == "shell_output" {
			all = append(all, params.Data)
		}
	}
	return all
}

// streamed is what came on one stream.
func (s *server) streamed(stream string, after int) string {
	var b strings.Builder
	for _, o := range s.outputs(after) {
		if o.Stream == stream {
			b.WriteString(o.Output + "\n")
		}
	}
	return b.String()
}

// needStream skips the checks of a server that streams nothing, and never said it would.
func (p *probe) needStream(s *server) {
	before := s.Seen()
	p.callOn(s, "shell", args{"command": p.facts.dialect.echo("streams")})
	if _, declared := p.facts.capabilities["logging"]; len(s.outputs(before)) == 0 && !declared && !p.classic() {
		p.skip("the server streams nothing")
	}
}

func checkStreamShape(p *probe) {
	s := p.begin(launch{})
	p.needStream(s)
	before := s.Seen()
	d := p.facts.dialect
	p.callOn(s, "shell", args{"command": d.then(d.echo("to stdout"), d.echoErr("to stderr"))})
	p.holds("what was streamed of stdout", s.streamed("stdout", before), "to stdout")
	p.holds("what was streamed of stderr", s.streamed("stderr", before), "to stderr")
	for _, f := range s.Notifications("notifications/message", before) {
		var params struct{ Level, Logger string }
		_ = json.Unmarshal(f.Params, &params) // what is missing is empty
		if params.Level != "info" || params.Logger != "shell_tool" {
			p.problem("the notification has level %q and logger %q, want info and shell_tool", params.Level, params.Logger)
		}
	}
}

func checkLoggingDeclared(p *probe) {
	s := p.begin(launch{})
	p.needStream(s)
	if !strings.Contains(string(s.initialized.Result), `"logging"`) {
		p.problem("logging is not declared")
	}
}

func checkIncremental(p *probe) {
	s := p.begin(launch{})
	p.needStream(s)
	before := s.Seen()
	d := p.facts.dialect
	r := p.ask(s, "shell", args{"command": d.then(d.echo("the first line"), d.await(p.path("go")))})
	p.eventually("the first line, while the command runs", func() bool { return strings.Contains(s.streamed("stdout", before), "the first line") })
	if answered(r) {
		p.problem("the command ended before its time")
	}
	p.write("go", "")
	p.worked(p.answer(r, "shell"), "shell", nil)
}

func checkPartial(p *probe) {
	s := p.begin(launch{})
	p.needStream(s)
	before := s.Seen()
	r := p.ask(s, "shell", args{"command": "printf 'Proceed? [y/n] '; " + p.facts.dialect.await(p.path("go"))})
	p.eventually("a line without its end, while the command runs", func() bool { return strings.Contains(s.streamed("stdout", before), "Proceed?") })
	p.write("go", "")
	p.worked(p.answer(r, "shell"), "shell", nil)
}

func checkLossless(p *probe) {
	s := p.begin(launch{})
	p.needStream(s)
	const lines = 2000
	for range 3 {
		before := s.Seen()
		a := p.callOn(s, "shell", args{"command": p.facts.dialect.lines(lines)})
		p.worked(a, "shell", args{"command": "(prints lines)"})
		p.ping(s, "lines")
		var want strings.Builder
		for i := range lines {
			fmt.Fprint(&want, i+1)
		}
		got := strings.Join(strings.Fields(s.streamed("stdout", before)), "")
		if got != want.String() {
			p.fail("%d lines were printed, and %d notifications do not have all of them in order: %s", lines, len(s.outputs(before)), excerpt(got))
		}
		if late := s.outputs(a.frame.N); len(late) > 0 {
			p.fail("%d lines came after the response", len(late))
		}
	}
}

func checkSlowClient(p *probe) {
	s := p.begin(launch{})
	s.Gate.Lock()
	r := p.ask(s, "shell", args{"command": p.facts.dialect.lines(p.many(20_000))})
	time.Sleep(1500 * time.Millisecond) // in which the pipe fills: there is no event for that
	s.Gate.Unlock()
	a := p.answer(r, "shell")
	p.worked(a, "shell", args{"command": "(prints lines)"})
	p.holds("the output", a.text("assistant"), fmt.Sprintf("\n%d", p.many(20_000)))
}

// many is how many lines a command prints; wine's shell prints slowly.
func (p *probe) many(n int) int {
	if p.windows() {
		return min(n, 3000)
	}
	return n
}

func checkProgress(p *probe) {
	s := p.begin(launch{})
	p.callOn(s, "shell", args{"command": p.facts.dialect.echo("x")})
	if n := len(s.Notifications("notifications/progress", 0)); n > 0 {
		p.problem("%d progress notifications for a call without a token", n)
	}
	p.callWith(s, "shell", args{"command": p.facts.dialect.lines(300)}, map[string]any{"progressToken": "token-1"})
	last := -1.0
	for _, f := range s.Notifications("notifications/progress", 0) {
		var params struct {
			ProgressToken any
			Progress      *float64
		}
		if json.Unmarshal(f.Params, &params) != nil || params.ProgressToken != "token-1" || params.Progress == nil || *params.Progress <= last {
			p.problem("progress: %s after %v", excerpt(f.Params), last)
			continue
		}
		last = *params.Progress
	}
}

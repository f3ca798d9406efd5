package acp

import (
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func toolChecks() []Check {
	shell := []need{needShell}
	return []Check{
		{ID: "tool.lifecycle", Requirements: []int{28}, needs: shell, run: checkToolLifecycle, Text: "a tool call is announced before its updates and ends once, with completed"},
		{ID: "tool.kind", Requirements: []int{29}, needs: shell, run: checkToolKind, Text: "a command is a tool call of kind execute that shows the command"},
		{ID: "tool.output", Requirements: []int{29}, needs: shell, run: checkToolOutput, Text: "what a command prints is in the content of its tool call"},
		{ID: "tool.live", Requirements: []int{25, 29}, needs: shell, run: checkToolLive, Text: "what a command prints is shown while it runs"},
		{ID: "tool.failure", Requirements: []int{28}, needs: shell, run: checkToolFailure, Text: "a command that fails is told from one that works"},
		{ID: "tool.unknown", Requirements: []int{28}, needs: shell, run: checkToolUnknown, Text: "a tool that the model makes up is survived"},
		{ID: "tool.parallel", Requirements: []int{28}, needs: shell, run: checkToolParallel, Text: "tool calls of one answer have ids of their own, and each ends"},
		{ID: "tool.diff", Requirements: []int{30, 39}, needs: shell, run: checkToolDiff, Text: "a file that a tool writes is shown as a diff with its absolute path and its location"},
	}
}

// ran runs one command in a turn and returns its call.
func (p *probe) ran(s *session, command string) (*turn, *call) {
	t := p.done(p.prompt(s, runs(command), says("done")), "end_turn")
	all := calls(t.updates())
	if len(all) == 0 {
		p.fail("the command ran without a tool call; the updates are %s", kinds(t.updates()))
	}
	return t, all[0]
}

func kinds(updates []update) string {
	var all []string
	for _, u := range updates {
		all = append(all, strings.TrimSpace(u.SessionUpdate+" "+u.Status))
	}
	return strings.Join(slices.Compact(all), ", ")
}

func checkToolLifecycle(p *probe) {
	t, c := p.ran(p.fresh(), "echo tool")
	updates := slices.DeleteFunc(t.updates(), func(u update) bool { return u.ToolCallID == "" })
	if updates[0].SessionUpdate != "tool_call" {
		p.problem("the first of the call's updates is %s: %s", updates[0].SessionUpdate, harness.Excerpt(updates[0].raw))
	}
	if c.status != "completed" || c.ends != 1 {
		p.problem("it ends %d times, the last status is %q: %s", c.ends, c.status, kinds(updates))
	}
	if last := updates[len(updates)-1]; !last.final() {
		p.problem("the last of the call's updates is not its final one: %s", harness.Excerpt(last.raw))
	}
}

func checkToolKind(p *probe) {
	t, c := p.ran(p.fresh(), "echo kind-of-command")
	if c.kind != "execute" {
		p.problem("the kind is %q, want execute", c.kind)
	}
	if !strings.Contains(c.title+c.input+c.text, "echo kind-of-command") {
		p.problem("neither title, rawInput nor content show the command: %s", kinds(t.updates()))
	}
}

func checkToolOutput(p *probe) {
	_, c := p.ran(p.fresh(), "echo to-std''out; echo to-std''err >&2")
	p.holds("the content of the tool call", c.text, "to-stdout", "to-stderr")
}

func checkToolLive(p *probe) {
	s := p.fresh()
	file := filepath.Join(s.cwd, "go")
	t := p.prompt(s, runs("echo li''ve; for i in 1 2 3 4 5 6 7 8 9 10; do test -e '"+file+"' && exit 0; sleep 1; done"), says("done"))
	shown := false
	p.eventually("the command to show its output or to end", func() bool {
		ended := t.Answered()
		shown = slices.ContainsFunc(t.updates(), func(u update) bool { return !u.final() && strings.Contains(u.text(), "live") })
		return shown || ended || slices.ContainsFunc(t.updates(), func(u update) bool { return u.final() })
	})
	p.write(s.cwd, "go", "")
	p.done(t, "end_turn")
	if !shown {
		p.problem("nothing of its output is in the content of an update before the last")
	}
}

func checkToolFailure(p *probe) {
	_, c := p.ran(p.fresh(), "echo broken; exit 3")
	if c.status != "failed" && !strings.Contains(c.text+c.output, "3") {
		p.problem("a command that ends with 3 has the status %q, and nothing shows the 3: %s", c.status, harness.Excerpt(c.text))
	}
}

func checkToolUnknown(p *probe) {
	s := p.fresh()
	t := p.prompt(s, step{"tool": "no_such_tool", "args": map[string]any{}}, says("done"))
	p.frame(t.request, "a prompt whose model makes a tool up")
	p.works(s, "a tool that there is not")
}

func checkToolParallel(p *probe) {
	s := p.fresh()
	args := func(word string) map[string]any {
		return map[string]any{"tool": shellTools, "args": map[string]any{"command": "echo " + word, "description": word}}
	}
	t := p.done(p.prompt(s, step{"tools": []any{args("one"), args("two"), args("three")}}, says("done")), "end_turn")
	all := calls(t.updates())
	if len(all) != 3 {
		p.fail("three tool calls at once are shown as %d: %s", len(all), kinds(t.updates()))
	}
	for _, c := range all {
		if c.status != "completed" || c.ends != 1 {
			p.problem("the tool call %s ends %d times, the last status is %q", c.title, c.ends, c.status)
		}
	}
}

func checkToolDiff(p *probe) {
	if !slices.ContainsFunc(strings.Split(writeTools, "|"), func(name string) bool { return slices.Contains(p.facts.tools, name) }) {
		p.skip("the model is offered no tool that writes files: %s", strings.Join(p.facts.tools, " "))
	}
	s := p.fresh()
	file := filepath.Join(s.cwd, "written.txt")
	t := p.done(p.prompt(s, writes(file, "new words\n"), says("done")), "end_turn")
	all := calls(t.updates())
	if len(all) == 0 || !exists(file) {
		p.fail("the file is not written: %s; %s", kinds(t.updates()), harness.Excerpt(t.said()))
	}
	if !slices.ContainsFunc(all[0].diffs, func(d diff) bool { return d.Path == file && strings.Contains(d.NewText, "new words") }) {
		p.problem("no diff of %s is shown: %s", file, harness.Excerpt(all[0].text))
	}
	if !slices.Contains(all[0].locations, file) {
		p.problem("the locations are %q, want %s among them", all[0].locations, file)
	}
}

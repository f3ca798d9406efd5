package acp

import (
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func sessionChecks() []Check {
	return []Check{
		{ID: "session.new", Requirements: []int{12}, run: checkNew, Text: "each session/new gives another id"},
		{ID: "session.relative", Requirements: []int{13, 39}, run: checkRelative, Text: "a working directory that is not absolute is refused"},
		{ID: "session.missing-dir", Requirements: []int{13}, run: checkMissingDir, Text: "a working directory that does not exist, or is a file, is refused"},
		{ID: "session.cwd", Requirements: []int{13}, needs: []need{needShell}, run: checkCWD, Text: "commands run in their session's directory, whatever its name, also with two sessions at once"},
		{ID: "session.unknown", Requirements: []int{14}, run: checkUnknownSession, Text: "methods of a session that is not known are errors"},
		{ID: "session.parallel", Requirements: []int{46}, needs: []need{needModel}, run: checkParallel, Text: "a session whose model is silent holds up no other"},
		{ID: "session.directories", Requirements: []int{23}, run: checkDirectories, Text: "additional directories, where advertised, are absolute and can be worked in"},
		{ID: "session.mcp-stdio", Requirements: []int{15}, needs: []need{needModel}, run: checkMCPServer, Text: "the tools of a stdio server that the client names are offered to the model"},
		{ID: "session.mcp-broken", Requirements: []int{15}, run: checkMCPBroken, Text: "a server that cannot be started does not spoil the session"},
	}
}

// rawParams are params as they are to go over the wire.
type rawParams string

// MarshalJSON implements json.Marshaler.
func (r rawParams) MarshalJSON() ([]byte, error) { return []byte(r), nil }

func checkNew(p *probe) {
	a := p.session().agent
	ids := []string{p.shared.id}
	for range 2 {
		s := p.open(a, p.dir)
		if slices.Contains(ids, s.id) {
			p.problem("the id %q is given twice", s.id)
		}
		ids = append(ids, s.id)
	}
}

func checkRelative(p *probe) {
	a := p.session().agent
	for _, dir := range []string{".", "relative", "./x", "../x", "", "~"} {
		p.refused(a.ask("session/new", newParams(dir)), "session/new in "+harness.Excerpt(dir))
	}
}

func checkMissingDir(p *probe) {
	a := p.session().agent
	file := p.write(p.dir, "file", "")
	for _, dir := range []string{filepath.Join(p.dir, "nowhere"), file} {
		p.refused(a.ask("session/new", newParams(dir)), "session/new in "+dir)
	}
}

func checkCWD(p *probe) {
	a := p.session().agent
	one, two := p.open(a, p.mkdir("one")), p.open(a, p.mkdir("two with spaces & ünïcode"))
	first, second := p.prompt(one, runs("echo 1 > here; pwd"), says("done")), p.prompt(two, runs("echo 2 > here; pwd"), says("done"))
	p.done(first, "end_turn")
	p.done(second, "end_turn")
	for _, s := range []*session{one, two} {
		if !exists(filepath.Join(s.cwd, "here")) {
			p.problem("a command of the session in %s did not run there", s.cwd)
		}
	}
}

func checkUnknownSession(p *probe) {
	s := p.session()
	const id = "conformance-no-such-session"
	all := map[string]map[string]any{"session/prompt": {"sessionId": id, "prompt": []any{textBlock("x")}}}
	if p.facts.loads {
		all["session/load"] = map[string]any{"sessionId": id, "cwd": p.dir, "mcpServers": []any{}}
	}
	for _, name := range []string{"resume", "fork"} {
		if p.facts.session[name] {
			all["session/"+name] = map[string]any{"sessionId": id, "cwd": p.dir, "mcpServers": []any{}}
		}
	}
	if len(p.facts.modes.AvailableModes) > 0 {
		all["session/set_mode"] = map[string]any{"sessionId": id, "modeId": p.facts.modes.AvailableModes[0].ID}
	}
	if len(p.facts.options) > 0 {
		all["session/set_config_option"] = map[string]any{"sessionId": id, "configId": p.facts.options[0].ID, "value": "x"}
	}
	for method, params := range all {
		p.refused(s.ask(method, params), method+" of a session that is not known")
	}
	p.lives(s, "unknown sessions")
}

// lives is works where there is a model, else a sign of life.
func (p *probe) lives(s *session, after string) {
	if p.facts.noModel == "" {
		p.works(s, after)
		return
	}
	p.ping(s.agent, after)
}

func checkParallel(p *probe) {
	a := p.begin(launch{})
	slow, quick := p.open(a, p.mkdir("slow")), p.open(a, p.mkdir("quick"))
	t := p.prompt(slow, waits())
	p.reached(t)
	p.works(quick, "another session's prompt whose model is silent")
	if t.Answered() {
		p.problem("the prompt whose model is silent was answered: %s", harness.Excerpt(p.frame(t.request, "it").Raw))
	}
	slow.cancel()
	p.within(t.request, "the prompt that was cancelled", cancelBudget)
}

func checkDirectories(p *probe) {
	if !p.facts.session["additionalDirectories"] {
		p.skip("the agent does not advertise sessionCapabilities.additionalDirectories")
	}
	a := p.session().agent
	cwd, more := p.mkdir("cwd"), p.mkdir("more")
	for _, bad := range []any{[]string{"relative"}, []any{5}, "text"} {
		p.refused(a.ask("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}, "additionalDirectories": bad}), "session/new with the additional directories "+harness.Marshal(bad))
	}
	s := p.openWith(a, map[string]any{"cwd": cwd, "mcpServers": []any{}, "additionalDirectories": []string{more}})
	if p.facts.noShell == "" {
		p.done(p.prompt(s, runs("echo x > '"+filepath.Join(more, "there")+"'"), says("done")), "end_turn")
		if !exists(filepath.Join(more, "there")) {
			p.problem("a command cannot write into the additional directory")
		}
	}
}

func checkMCPServer(p *probe) {
	if len(p.o.MCPServer) == 0 {
		p.skip("the harness was given no MCP server; Options.MCPServer is one")
	}
	server := map[string]any{"name": "conformance", "command": p.o.MCPServer[0], "args": p.o.MCPServer[1:], "env": []any{}}
	s := p.openWith(p.session().agent, map[string]any{"cwd": p.mkdir("work"), "mcpServers": []any{server}})
	t := p.done(p.prompt(s, says("done")), "end_turn")
	for _, q := range p.requests(t) {
		if slices.ContainsFunc(q.Tools, func(name string) bool { return strings.Contains(name, "conformance") }) {
			return
		}
		p.problem("no tool of the server named conformance is offered to the model: %s", strings.Join(q.Tools, " "))
	}
}

func checkMCPBroken(p *probe) {
	server := map[string]any{"name": "broken", "command": "/nowhere/no-such-program", "args": []any{}, "env": []any{}}
	s := p.openWith(p.session().agent, map[string]any{"cwd": p.mkdir("work"), "mcpServers": []any{server}})
	p.lives(s, "session/new with a server that cannot be started")
}

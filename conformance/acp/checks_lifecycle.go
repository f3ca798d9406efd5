package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func lifecycleChecks() []Check {
	return []Check{
		{ID: "lifecycle.initialize", Requirements: []int{7, 8}, run: checkInitialize, Text: "initialize is answered with version 1, what the agent is and can do"},
		{ID: "lifecycle.versions", Requirements: []int{8}, run: checkVersions, Text: "a version that is not spoken is answered with the latest that is, in its shape"},
		{ID: "lifecycle.minimal", Requirements: []int{7, 9}, run: checkMinimal, Text: "a client that says nothing of itself, or what nobody knows, is served"},
		{ID: "lifecycle.bad-version", Requirements: []int{4, 8}, run: checkBadVersion, Text: "initialize without a version that is a number is an error, and can be repeated"},
		{ID: "lifecycle.authenticate", Requirements: []int{11}, run: checkAuthenticate, Text: "authenticate with a method that was not advertised is an error"},
		{ID: "lifecycle.logout", Requirements: []int{9}, run: checkLogout, Text: "logout is answered where it is advertised, and no method elsewhere"},
		{ID: "lifecycle.unadvertised", Requirements: []int{9}, run: checkUnadvertised, Text: "session methods that are not advertised are no methods, or errors"},
	}
}

func checkInitialize(p *probe) {
	a := p.raw(launch{})
	f := p.initialize(a)
	var result struct {
		ProtocolVersion   json.RawMessage
		AgentCapabilities json.RawMessage
		AgentInfo         struct{ Name, Version string }
	}
	p.decode(f, &result)
	if string(result.ProtocolVersion) != "1" {
		p.problem("asked for version 1 it answers %s", result.ProtocolVersion)
	}
	if result.AgentInfo.Name == "" || result.AgentInfo.Version == "" {
		p.problem("agentInfo has no name and version: %s", harness.Excerpt(f.Result))
	}
	if len(result.AgentCapabilities) == 0 {
		p.problem("there are no agentCapabilities: %s", harness.Excerpt(f.Result))
	}
}

// checkVersions: an agent that speaks version 2 as well may say so, in that
// version's shape; nobody speaks 65535.
func checkVersions(p *probe) {
	for _, version := range []int{2, 99, 65535} {
		f := p.good(p.raw(launch{}).ask("initialize", initializeParams(version)), fmt.Sprintf("initialize with version %d", version))
		var result struct {
			ProtocolVersion int
			Capabilities    json.RawMessage
		}
		p.decode(f, &result)
		switch {
		case result.ProtocolVersion == 1:
		case result.ProtocolVersion == 2 && result.Capabilities != nil:
		case result.ProtocolVersion == 2:
			p.problem("asked for version %d it says 2, in the shape of version 1", version)
		default:
			p.problem("asked for version %d it says %d, which it cannot speak", version, result.ProtocolVersion)
		}
	}
}

func checkMinimal(p *probe) {
	for _, params := range []string{
		`{"protocolVersion":1}`,
		`{"protocolVersion":1,"clientCapabilities":{},"clientInfo":null,"_meta":{"x":{"y":[1]}},"nobodyKnows":true}`,
		`{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"future":{}},"future":[1,2],"_meta":{"terminal_output":true}}}`,
	} {
		a := p.raw(launch{})
		p.good(a.ask("initialize", json.RawMessage(params)), "initialize with "+params)
		p.open(a, p.dir)
	}
}

func checkBadVersion(p *probe) {
	a := p.raw(launch{})
	for _, params := range []string{`{}`, `{"protocolVersion":"one"}`, `{"protocolVersion":-1}`, `{"protocolVersion":1.5}`, `[1]`} {
		p.refused(a.ask("initialize", json.RawMessage(params)), "initialize with "+params)
	}
	p.initialize(a)
	p.open(a, p.dir)
}

func checkAuthenticate(p *probe) {
	if len(p.facts.authMethods) == 0 {
		p.skip("the agent advertises no authMethods")
	}
	a := p.begin(launch{})
	p.refused(a.ask("authenticate", map[string]any{"methodId": "conformance-no-such-method"}), "authenticate with a method that was not advertised")
	for _, m := range p.facts.authMethods {
		if m.Type == "terminal" {
			p.refused(a.ask("authenticate", map[string]any{"methodId": m.ID}), "authenticate with "+m.ID+", which is for the terminal,")
		}
	}
}

func checkLogout(p *probe) {
	a := p.begin(launch{})
	r := a.ask("logout", map[string]any{})
	if strings.HasPrefix(p.about("agentCapabilities", "auth", "logout"), "{") {
		p.good(r, "logout, which is advertised,")
		return
	}
	p.noMethod(p.frame(r, "logout"), "logout, which is not advertised,")
}

// noMethod notes a problem unless a method is unknown.
func (p *probe) noMethod(f *frame, what string) {
	if f.Error == nil || f.Error.Code != "-32601" {
		p.problem("%s is answered with %s, want error -32601", what, harness.Excerpt(f.Raw))
	}
}

func checkUnadvertised(p *probe) {
	a := p.begin(launch{})
	s := p.open(a, p.dir)
	advertised := map[string]bool{"session/load": p.facts.loads, "session/list": p.facts.session["list"], "session/set_title": p.facts.session["title"]}
	for _, name := range []string{"resume", "close", "delete", "fork", "archive", "status", "options"} {
		advertised["session/"+name] = p.facts.session[name]
	}
	none := 0
	for method, is := range advertised {
		if is {
			continue
		}
		none++
		f := p.frame(a.ask(method, map[string]any{"sessionId": s.id, "cwd": p.dir, "mcpServers": []any{}}), method)
		if f.Error == nil {
			p.problem("%s is not advertised and answers %s", method, harness.Excerpt(f.Raw))
		}
	}
	if none == 0 {
		p.skip("the agent advertises every session method")
	}
}

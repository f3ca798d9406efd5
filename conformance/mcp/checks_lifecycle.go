package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

func lifecycleChecks() []Check {
	return []Check{
		{ID: "lifecycle.versions", Requirements: []int{5, 6, 62}, run: checkVersions, Text: "initialize answers each protocol version with the same one"},
		{ID: "lifecycle.unknown-version", Requirements: []int{5}, run: checkUnknownVersion, Text: "an unknown protocol version is answered with a known one, not with an error"},
		{ID: "lifecycle.discover", Requirements: []int{5, 29}, run: checkDiscover, Text: "server/discover offers nothing newer than 2025-11-25 (with which goose sends no cancels), and initialize works after it"},
		{ID: "lifecycle.identity", Requirements: []int{1, 3, 62}, run: checkIdentity, Text: "serverInfo says developer and a version"},
		{ID: "lifecycle.instructions", Requirements: []int{3}, run: checkInstructions, Text: "there are instructions that name the operating system and the tools"},
		{ID: "lifecycle.capabilities", Requirements: []int{7}, run: checkCapabilities, Text: "what is declared is answered, what is not is no method"},
		{ID: "lifecycle.resources", Requirements: []int{7}, run: checkNoResources, Text: "resources are not declared: a developer server has none, and opencode asks for what is declared"},
		{ID: "lifecycle.ping", Requirements: []int{6, 62}, run: checkPing, Text: "ping is answered, also before initialize; notifications are not"},
		{ID: "lifecycle.again", Requirements: []int{2, 62}, run: checkAgain, Text: "it can be ended and started again, and two run side by side"},
	}
}

func checkVersions(p *probe) {
	for _, v := range versions() {
		s := p.begin(launch{raw: true})
		p.handshake(s, v)
		p.equal("the answer to version "+v, protocolVersion(s.initialized), v)
		if len(p.tools(s)) == 0 {
			p.problem("no tools with version %s", v)
		}
	}
}

func protocolVersion(f *frame) string {
	var result struct{ ProtocolVersion string }
	_ = json.Unmarshal(f.Result, &result) // empty is no version
	return result.ProtocolVersion
}

func checkUnknownVersion(p *probe) {
	for _, v := range []string{"1999-01-01", "2099-12-31", "nonsense"} {
		s := p.begin(launch{raw: true})
		f := p.frame(s.Ask("initialize", initializeParams(v)), "initialize")
		if f.Error != nil || !slices.Contains(versions(), protocolVersion(f)) {
			p.problem("version %s is answered with %s", v, excerpt(f.Raw))
		}
	}
}

func checkDiscover(p *probe) {
	s := p.begin(launch{raw: true})
	f := p.frame(s.Ask("server/discover", map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientInfo":      map[string]any{"name": "goose", "version": "1.52.0"},
	}}), "server/discover")
	switch {
	case f.Error != nil && f.Error.Code.String() != fmt.Sprint(methodNotFound):
		p.problem("server/discover is answered with error %s, goose falls back on %d only", f.Error.Code, methodNotFound)
	case f.Error == nil:
		var result struct{ SupportedVersions []string }
		_ = json.Unmarshal(f.Result, &result) // no versions are found out below
		for _, v := range result.SupportedVersions {
			if v > latestVersion {
				p.problem("server/discover offers %s", v)
			}
		}
		if len(result.SupportedVersions) == 0 {
			p.problem("server/discover offers no versions: %s", excerpt(f.Raw))
		}
	}
	p.handshake(s, latestVersion)
	p.ping(s, "server/discover and initialize")
}

func checkIdentity(p *probe) {
	var info struct{ Name, Version string }
	_ = json.Unmarshal(p.initializeMember("serverInfo"), &info) // what is missing is empty
	p.holds("the server's name", info.Name, "developer")
	if info.Version == "" {
		p.problem("serverInfo has no version")
	}
}

// initializeMember is a part of the result of initialize.
func (p *probe) initializeMember(name string) json.RawMessage {
	var result map[string]json.RawMessage
	_ = json.Unmarshal(p.server().initialized.Result, &result) // no object has no members
	return result[name]
}

func checkInstructions(p *probe) {
	var text string
	_ = json.Unmarshal(p.initializeMember("instructions"), &text) // empty is found out below
	if text == "" {
		p.fail("there are no instructions")
	}
	p.holds("the instructions", text, "shell")
	if p.classic() {
		p.holds("the instructions", text, "operating system: ", "current directory: ", "text_editor")
	}
}

// What each capability makes possible.
var capabilityMethods = []struct {
	capability, method string
	params             any
}{
	{"tools", "tools/list", nil},
	{"prompts", "prompts/list", nil},
	{"resources", "resources/list", nil},
	{"logging", "logging/setLevel", map[string]any{"level": "info"}},
}

func checkCapabilities(p *probe) {
	s := p.begin(launch{})
	var declared map[string]json.RawMessage
	var result struct{ Capabilities json.RawMessage }
	if json.Unmarshal(s.initialized.Result, &result) != nil || json.Unmarshal(result.Capabilities, &declared) != nil {
		p.fail("initialize has no capabilities: %s", excerpt(s.initialized.Raw))
	}
	if declared["tools"] == nil {
		p.problem("tools are not declared")
	}
	for _, c := range capabilityMethods {
		f := p.frame(s.Ask(c.method, c.params), c.method)
		switch {
		case declared[c.capability] != nil && f.Error != nil:
			p.problem("%s is declared, and %s answers error %s %s", c.capability, c.method, f.Error.Code, f.Error.Message)
		case declared[c.capability] == nil && f.Error == nil:
			p.problem("%s is not declared, and %s is answered", c.capability, c.method)
		case declared[c.capability] == nil && f.Error.Code.String() != fmt.Sprint(methodNotFound):
			p.problem("%s is not declared, and %s answers error %s, want %d", c.capability, c.method, f.Error.Code, methodNotFound)
		}
	}
}

func checkNoResources(p *probe) {
	if strings.Contains(string(p.initializeMember("capabilities")), `"resources"`) {
		p.problem("resources are declared")
	}
}

func checkPing(p *probe) {
	s := p.begin(launch{raw: true})
	p.ping(s, "nothing")
	p.handshake(s, latestVersion)
	before := s.Seen()
	s.Tell("notifications/roots/list_changed", nil)
	s.Tell("notifications/no/such", map[string]any{"x": 1})
	f := p.frame(s.Ask("ping", nil), "ping")
	if string(f.Result) != "{}" {
		p.problem("ping is answered with %s, want an empty object", excerpt(f.Raw))
	}
	if n := s.Seen() - before; n != 1 {
		p.problem("two notifications and a ping bring %d messages, want 1", n)
	}
}

func checkAgain(p *probe) {
	var pair []*server
	for range 2 {
		pair = append(pair, p.begin(launch{}), p.begin(launch{}))
		for _, s := range pair {
			if s.Alive() && len(p.tools(s)) == 0 {
				p.problem("a server that runs beside another has no tools")
			}
		}
		last := pair[len(pair)-1]
		last.CloseStdin()
		if !last.WaitEnd(p.ctx, p.o.Timeout) {
			p.fail("it does not end")
		}
		p.ping(pair[len(pair)-2], "the end of another server")
	}
}

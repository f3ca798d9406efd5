package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func metadataChecks() []Check {
	shell := []string{"shell"}
	return []Check{
		{ID: "metadata.working-dir", Requirements: []int{14, 21}, needs: shell, run: checkWorkingDir, Text: "commands run in agent-working-dir, those of parallel calls each in theirs"},
		{ID: "metadata.working-dir-files", Requirements: []int{14}, run: checkWorkingDirFiles, Text: "every tool resolves relative paths against agent-working-dir"},
		{ID: "metadata.no-working-dir", Requirements: []int{14, 17}, needs: shell, run: checkNoWorkingDir, Text: "without agent-working-dir commands run where the server was started"},
		{ID: "metadata.missing-dir", Requirements: []int{17, 47}, needs: shell, run: checkMissingDir, Text: "a working directory that does not exist is an error, and nothing runs elsewhere"},
		{ID: "metadata.session-id", Requirements: []int{15, 24}, needs: shell, run: checkSessionID, Text: "AGENT_SESSION_ID is the call's agent-session-id, and no other call's"},
		{ID: "metadata.unknown", Requirements: []int{16}, needs: shell, run: checkUnknownMeta, Text: "unknown metadata is ignored"},
		{ID: "metadata.invalid", Requirements: []int{17}, needs: shell, run: checkInvalidMeta, Text: "empty and ill-typed metadata is ignored, metadata that is no object survived"},
	}
}

func checkWorkingDir(p *probe) {
	s := p.server()
	var requests []*request
	for i := range 4 {
		name := fmt.Sprintf("dir %d", i)
		if err := os.Mkdir(p.host(name), 0o755); err != nil {
			p.fail("%v", err)
		}
		requests = append(requests, s.Ask("tools/call", callParams("shell", args{"command": p.facts.dialect.pwd()}, map[string]any{"agent-working-dir": p.path(name)})))
	}
	for i, r := range requests {
		a := p.answer(r, "shell")
		p.equal("the working directory", lastLine(a), p.path(fmt.Sprintf("dir %d", i)))
	}
}

// lastLine is the last line of a command's output.
func lastLine(a answer) string {
	lines := strings.Split(strings.TrimRight(lf(a.text("assistant")), "\n"), "\n")
	return lines[len(lines)-1]
}

func checkWorkingDirFiles(p *probe) {
	p.write("sub/here.go", "package here\n\nfunc Marker42() {}\n")
	meta := map[string]any{"agent-working-dir": p.path("sub")}
	s := p.server()
	any := false
	for _, tt := range []struct {
		tool      string
		arguments args
		words     string
	}{
		{"text_editor", args{"command": "view", "path": "here.go"}, "Marker42"},
		{"analyze", args{"path": "here.go"}, "Marker42"},
		{"tree", args{"path": "."}, "here.go"},
		{"edit", args{"path": "here.go", "before": "package here", "after": "package there"}, "here.go"},
	} {
		if !p.facts.has(tt.tool) {
			continue
		}
		any = true
		a := p.callWith(s, tt.tool, tt.arguments, meta)
		p.holds("the answer of "+tt.tool+" to a relative path", a.text("assistant")+a.message, tt.words)
	}
	if !any {
		p.skip("the server has no tool for files")
	}
}

func checkNoWorkingDir(p *probe) {
	s := p.begin(launch{})
	if !p.facts.sees {
		p.skip("the command leads into a container or a sandbox, with a directory of its own")
	}
	for _, meta := range []map[string]any{nil, {}, {"agent-working-dir": ""}} {
		a := p.answer(s.Ask("tools/call", callParams("shell", args{"command": p.facts.dialect.pwd()}, meta)), "shell")
		p.equal("the working directory", lastLine(a), p.target(p.dir))
	}
}

func checkMissingDir(p *probe) {
	a := p.callWith(p.server(), "shell", args{"command": p.facts.dialect.touch(p.path("ran"))}, map[string]any{"agent-working-dir": p.path("no such dir")})
	p.refused("shell in a directory that does not exist", a, internalError)
	if p.exists("ran") {
		p.problem("the command ran elsewhere")
	}
}

func checkSessionID(p *probe) {
	s := p.begin(launch{})
	command := args{"command": p.facts.dialect.getenv("AGENT_SESSION_ID")}
	output := func(meta map[string]any) string {
		return strings.TrimSpace(lf(p.answer(s.Ask("tools/call", callParams("shell", command, meta)), "shell").text("assistant")))
	}
	none := output(nil)
	for _, id := range []string{"s-1", "20261121_7", "another"} {
		p.equal("AGENT_SESSION_ID", output(map[string]any{"agent-session-id": id}), "["+id+"]")
	}
	p.equal("AGENT_SESSION_ID of a call without one, after others", output(nil), none)
}

func checkUnknownMeta(p *probe) {
	a := p.callWith(p.server(), "shell", args{"command": p.facts.dialect.pwd()}, map[string]any{
		"agent-tool-call-request-id": "call_1", "nobody/knows": map[string]any{"deep": []any{1, nil}}, "progressToken": 7,
		"io.modelcontextprotocol/protocolVersion": latestVersion,
	})
	p.worked(a, "shell", args{"_meta": "unknown"})
	p.holds("the working directory", a.text("assistant"), p.target(p.dir))
}

func checkInvalidMeta(p *probe) {
	s := p.server()
	for _, value := range []string{`null`, `5`, `true`, `""`, `{}`, `[]`, `["x"]`, `"nul\u0000inside"`} {
		meta := map[string]any{"agent-working-dir": json.RawMessage(value), "agent-session-id": json.RawMessage(value)}
		a := p.answer(s.Ask("tools/call", callParams("shell", args{"command": p.facts.dialect.echo("alive")}, meta)), "shell")
		if a.failed() || !strings.Contains(a.text("assistant"), "alive") {
			p.problem("with metadata %s: %s", value, excerpt(a.words()))
		}
	}
	for _, meta := range []string{`5`, `"text"`, `[]`, `null`} {
		params := callParams("shell", args{"command": p.facts.dialect.echo("alive")}, nil)
		params["_meta"] = json.RawMessage(meta)
		f := p.frame(s.Ask("tools/call", params), "a call with the _meta "+meta)
		if f.Error != nil && f.Error.Code.String() == fmt.Sprint(internalError) {
			p.problem("the _meta %s is an internal error: %s", meta, excerpt(f.Raw))
		}
	}
	p.ping(s, "invalid metadata")
}

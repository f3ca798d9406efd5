package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gander.dev/gander/developer"
)

// How a command ended is told to clients that know of structured results, beside the text:
// older ones get what classic goose's server gave them.
func TestOutcomes(t *testing.T) {
	long := strings.Repeat(strings.Repeat("output ", 10)+"\n", 2000)
	shell := developer.Tool{Name: "shell", OutcomeSchema: json.RawMessage(`{"type":"object"}`), Call: func(context.Context, developer.Call) (developer.Result, error) {
		return developer.Result{
			Content: []developer.Content{{Text: long, Audience: []string{"assistant"}}, {Text: "for the person", Audience: []string{"user"}}},
			Outcome: &developer.Outcome{Structured: json.RawMessage(`{"exitCode":3}`), Text: "[exit code 3]"},
		}, nil
	}}
	for _, tt := range []struct {
		name, version     string
		blocks            int
		schema, lastToAll bool
	}{
		{"goose", "2025-11-25", 3, true, false},
		{"somebody", "2025-06-18", 2, true, false},
		{"opencode", "2025-11-25", 2, true, true},
		{"goose", "2025-03-26", 2, false, false},
		{"goose", "2024-11-05", 2, false, false},
	} {
		p := connect(t, toolset(t, shell), Options{})
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":%q,"version":"1"}}}`, tt.version, tt.name))
		p.receive()
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if got := strings.Contains(string(p.receive().Result), `"outputSchema":{"type":"object"}`); got != tt.schema {
			t.Errorf("%s %s: a schema: %t", tt.name, tt.version, got)
		}
		p.send(callOf(2, "shell"))
		var result wireResult
		if err := json.Unmarshal(p.receive().Result, &result); err != nil {
			t.Fatal(err)
		}
		if len(result.Content) != tt.blocks || (string(result.Structured) == `{"exitCode":3}`) != tt.schema {
			t.Errorf("%s %s: %d blocks, structured %s", tt.name, tt.version, len(result.Content), result.Structured)
			continue
		}
		last := result.Content[tt.blocks-1]
		if tt.blocks == 3 && (*last.Text != "[exit code 3]" || (last.Annotations == nil) != tt.lastToAll) || tt.lastToAll && *last.Text != "[exit code 3]" {
			t.Errorf("%s %s: the last block is %+v", tt.name, tt.version, last)
		}
		if first := *result.Content[0].Text; tt.name == "opencode" && len(first) < 40_000 {
			t.Errorf("the short block took %d bytes of the long one", len(long)-len(first))
		}
		if err := p.hangUp(); err != nil {
			t.Error(err)
		}
	}
}

package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// The validator must object to what the schema forbids, and to nothing else.
func TestSchemaCheck(t *testing.T) {
	needClients(t)
	tests := []struct{ name, frame, want string }{
		{"an update", `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`, ""},
		{"an unknown kind of update", `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"brand_new","x":1}}}`, ""},
		{"a chunk without content", `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}`, "content"},
		{"a tool call without title", `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c"}}}`, "title"},
		{"an unknown status", `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"cancelled"}}}`, "status"},
		{"an update without session", `{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"plan","entries":[]}}}`, "sessionId"},
		{"negative usage", `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":-1,"size":1}}}`, "used"},
		{"a request as notification", `{"jsonrpc":"2.0","method":"session/request_permission","params":{}}`, "not in the schema"},
		{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"foo/bar"}`, "not in the schema"},
		{"an extension", `{"jsonrpc":"2.0","method":"_foo/bar"}`, ""},
		{"no version", `{"id":0,"result":{"stopReason":"end_turn"}}`, "jsonrpc"},
		{"a stop reason", `{"jsonrpc":"2.0","id":0,"result":{"stopReason":"end_turn"}}`, ""},
		{"an unknown stop reason", `{"jsonrpc":"2.0","id":0,"result":{"stopReason":"error"}}`, "stopReason"},
		{"an answer to nothing", `{"jsonrpc":"2.0","id":7,"result":{}}`, "not asked"},
		{"result and error", `{"jsonrpc":"2.0","id":0,"result":{},"error":{"code":1,"message":"x"}}`, "either"},
		{"an error", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`, ""},
		{"an error without message", `{"jsonrpc":"2.0","id":0,"error":{"code":-32700}}`, "message"},
		{"a batch", `[]`, "not a JSON-RPC message"},
	}
	frames := make([]string, len(tests))
	for i, tt := range tests {
		frames[i] = tt.frame
	}
	cmd := exec.CommandContext(soon(t), "node", "--input-type=module", "-e", `
		import { check } from "./schema.mjs";
		const frames = JSON.parse(process.argv[1]);
		const method = (id) => (id === 0 ? "session/prompt" : undefined);
		console.log(JSON.stringify(frames.map((f) => check(JSON.parse(f), method).join("; "))));
	`, encode(t, frames))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(tests) {
		t.Fatalf("%v in %s", err, out)
	}
	for i, tt := range tests {
		if (got[i] == "") != (tt.want == "") || !strings.Contains(got[i], tt.want) {
			t.Errorf("%s: problems %q, want %q", tt.name, got[i], tt.want)
		}
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gander.dev/gander/acp"
)

// What the editor gives its MCP servers is hidden by the rule for variables, and so is
// the token of an Authorization header.
func TestSecretsOfServers(t *testing.T) {
	s := NewSecrets(nil)
	s.LearnAmong([]acp.EnvVariable{
		{Name: "GITHUB_TOKEN", Value: "ghp_0123456789"},
		{Name: "authorization", Value: "Bearer eyJ0123456789"},
		{Name: "X-Api-Key", Value: "key-0123456789"},
		{Name: "REGION", Value: "eu-central-1"},
	})
	said := s.HideIn("ghp_0123456789 and eyJ0123456789, key-0123456789 in eu-central-1")
	if want := "[redacted] and [redacted], [redacted] in eu-central-1"; said != want {
		t.Errorf("got %q, want %q", said, want)
	}
}

// A trace has the frame in which an editor passes its MCP servers without their secrets.
func TestTraceOfServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	trace, err := (&App{Secrets: NewSecrets(nil)}).NewTracer(path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	trace.frame(acp.In, []byte(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/p","mcpServers":[
		{"name":"a","command":"a","args":[],"env":[{"name":"GITHUB_TOKEN","value":"ghp_0123456789"}]},
		{"name":"b","command":"b","env":{"OTHER_TOKEN":"gho_0123456789","REGION":"eu-central-1"}}]}}`))
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(written, []byte("_0123456789")) || !bytes.Contains(written, []byte("eu-central-1")) {
		t.Errorf("the trace is %s", written)
	}
}

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The Inspector is the reference client of the protocol's authors. (Their package
// of conformance tests speaks HTTP only, so there is nothing in it for a server
// on stdio.)
func TestInspector(t *testing.T) {
	needClients(t)
	gander := needGander(t)
	home := workspace(t)
	inspect := func(t *testing.T, result any, args ...string) string {
		t.Helper()
		command := append([]string{fromRoot(t, "conformance/node_modules/.bin/mcp-inspector"), "--cli", "--cwd", home, gander, "mcp", "developer"}, args...)
		cmd := exec.CommandContext(soon(t), command[0], command[1:]...)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, _ := cmd.Output() // it fails when the call does
		if result != nil && json.Unmarshal(out, result) != nil {
			t.Fatalf("%q: %s%s", args, out, complaint.String())
		}
		return string(out) + complaint.String()
	}
	t.Run("tools", func(t *testing.T) {
		var list struct{ Tools []struct{ Name string } }
		inspect(t, &list, "--method", "tools/list")
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		want := []string{"analyze", "image_processor", "list_windows", "screen_capture", "shell", "text_editor"}
		if !slices.Equal(names, want) {
			t.Errorf("the tools are %q, want %q", names, want)
		}
	})
	t.Run("a call", func(t *testing.T) {
		var result struct{ Content []struct{ Text string } }
		inspect(t, &result, "--method", "tools/call", "--tool-name", "shell", "--tool-arg", "command=echo one; pwd")
		if len(result.Content) != 2 || result.Content[0].Text != "one\n"+linkless(t, home)+"\n" {
			t.Errorf("%+v", result)
		}
	})
	t.Run("an error", func(t *testing.T) {
		if words := inspect(t, nil, "--method", "tools/call", "--tool-name", "shell", "--tool-arg", "command=  "); !strings.Contains(words, "Shell command cannot be empty") {
			t.Errorf("an empty command: %s", words)
		}
	})
	t.Run("a prompt", func(t *testing.T) {
		var result struct {
			Messages []struct{ Content struct{ Text string } }
		}
		inspect(t, &result, "--method", "prompts/get", "--prompt-name", "unit_test", "--prompt-args", "source_code=let x = 1", "language=Gleam")
		if len(result.Messages) != 1 || !strings.Contains(result.Messages[0].Content.Text, "let x = 1") {
			t.Errorf("%+v", result)
		}
	})
}

// linkless is a directory without links in its name.
func linkless(t *testing.T, dir string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

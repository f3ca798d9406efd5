package opencode

import (
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/agents/acpagent"
)

// What opencode leaves behind in its temporary directory does not add up.
func TestOneShotArgs(t *testing.T) {
	args := OneShotArgs("plan", "/home/agent/.tmp", "/opt/opencode", "--print-logs")
	if !slices.Equal(args[3:7], []string{"/home/agent/.tmp", "/opt/opencode", "--print-logs", "run"}) {
		t.Errorf("args %q", args)
	}
	line := strings.Join(args, " ")
	if !strings.Contains(line, "--format json --thinking") || !strings.HasSuffix(line, "--agent plan") || strings.Contains(line, "--attach") {
		t.Errorf("args %q", args)
	}
	if slices.Contains(OneShotArgs("", "/tmp/x", "opencode"), "--agent") {
		t.Error("an agent without a mode")
	}
}

// The variables of .env.example, as a person sets them and as the images pass them on.
func TestPlainEnvironment(t *testing.T) {
	for _, tt := range []struct{ environ, url, model string }{
		{"OPENCODE_MODEL=small", "http://h:1/v1", "custom/small"},
		{"OPENCODE_MODEL=custom/small", "http://h:1/v1", "custom/small"},
		{"OPENCODE_MODEL=meta/small OPENCODE_MODEL_NAME=meta/small", "http://h:1/v1", "custom/meta/small"},
		{"LLM_BASE_URL=", "http://h:1/v1", "custom/usual"},
		{"OPENCODE_LLM_HOST=http://h:1 LLM_BASE_URL=http://h:1", "http://h:1/v1", "custom/usual"},
		{"LLM_BASE_URL=http://own:2/v4", "http://own:2/v4", "custom/usual"},
		{"OPENCODE_LLM_HOST=http://own:2/v4 LLM_BASE_URL=http://own:2/v4", "http://own:2/v4", "custom/usual"},
		{"OPENCODE_LLM_HOST=http://h:1/v1 LLM_BASE_URL=http://own:2/v4", "http://h:1/v1", "custom/usual"},
	} {
		env := PlainEnvironment(strings.Fields(tt.environ), "http://h:1/v1", "key", "usual")
		for name, want := range map[string]string{
			"OPENCODE_LLM_HOST": tt.url, "OPENCODE_MODEL": tt.model, "OPENCODE_MODEL_NAME": strings.TrimPrefix(tt.model, "custom/"), "LLM_API_KEY": "key",
		} {
			if got := acpagent.Variable(env, name); got != want {
				t.Errorf("%s: %s is %q, want %q", tt.environ, name, got, want)
			}
		}
	}
}

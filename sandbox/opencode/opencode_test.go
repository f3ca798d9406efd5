package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// box is a sandbox in which nothing can be started.
type box struct{ sandbox.Sandbox }

func (box) Info() sandbox.Info { return sandbox.Info{Home: "/home/agent"} }

func (box) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, errors.New("not here")
}

func agentWith(s Settings) *Agent {
	return New(func() (Settings, error) { return s, nil }, Options{})
}

func TestEnvironment(t *testing.T) {
	s := Settings{
		Env:   []string{"PATH=/usr/bin", "SHELL=/bin/sh", "OPENCODE_PERMISSION={}", "OPENCODE_CONFIG_CONTENT={}", "HOME=/root", "XDG_DATA_HOME=/x", "TMPDIR=/tmp"},
		Model: `odd "name"`,
	}
	got, err := inside{bash: "/bin/bash"}.environment(s, "/home/agent", "127.0.0.1:99", "inside", "secret")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PATH=/usr/bin", "OPENCODE_PERMISSION={}",
		"HOME=/home/agent", "TMPDIR=/home/agent/.tmp",
		"XDG_CONFIG_HOME=/home/agent/.config", "XDG_DATA_HOME=/home/agent/.local/share", "XDG_STATE_HOME=/home/agent/.local/state", "XDG_CACHE_HOME=/home/agent/.cache",
		"OPENCODE_LLM_HOST=http://127.0.0.1:99/v1", "LLM_API_KEY=inside",
		`OPENCODE_MODEL=custom/odd \"name\"`, `OPENCODE_MODEL_NAME=odd \"name\"`,
		"OPENCODE_SERVER_PASSWORD=secret", "OPENCODE_PURE=1",
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_EMBEDDED_WEB_UI=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_DISABLE_SHARE=1", "OPENCODE_DISABLE_TERMINAL_TITLE=1",
		"SHELL=/bin/bash",
	}
	config := func(v string) bool { return strings.HasPrefix(v, "OPENCODE_CONFIG_CONTENT=") }
	if i := slices.IndexFunc(got, config); i < 0 || got[i] == "OPENCODE_CONFIG_CONTENT={}" {
		t.Errorf("no configuration in %q", got)
	}
	if diff := cmp.Diff(want, slices.DeleteFunc(got, config)); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if len(s.Env) != 7 || s.Env[1] != "SHELL=/bin/sh" {
		t.Errorf("the settings were changed: %q", s.Env)
	}
}

func TestConfig(t *testing.T) {
	read := func(in inside) (c struct {
		Model            string
		EnabledProviders []string `json:"enabled_providers"`
		Permission       map[string]string
		Instructions     []string
		Tools            map[string]bool
	},
	) {
		raw, err := in.config()
		if err == nil {
			err = json.Unmarshal([]byte(raw), &c)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := read(inside{rg: "/usr/bin/rg"})
	if c.Model != "{env:OPENCODE_MODEL}" || !slices.Equal(c.EnabledProviders, []string{"custom"}) || c.Permission["task"] != "deny" || c.Permission["question"] != "deny" {
		t.Errorf("configuration %+v", c)
	}
	if _, ok := c.Permission["external_directory"]; ok {
		t.Error("opencode looks outside of the project without asking, and nothing else keeps it from that")
	}
	if c := read(inside{isolated: true}); c.Permission["external_directory"] != "allow" || c.Permission["task"] != "deny" {
		t.Errorf("permissions in a sandbox that isolates: %v", c.Permission)
	}
	if c.Instructions != nil || c.Tools != nil {
		t.Errorf("instructions %q, tools %v without a reason", c.Instructions, c.Tools)
	}
	c = read(inside{instructions: "/project/AGENTS.md"})
	if diff := cmp.Diff([]string{"/project/AGENTS.md"}, c.Instructions); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"grep": false, "glob": false}, c.Tools); diff != "" {
		t.Errorf("tools without ripgrep: %s", diff)
	}
}

func TestNotices(t *testing.T) {
	if got := (inside{rg: "/usr/bin/rg"}).notices(); got != nil {
		t.Errorf("notices %q", got)
	}
	got := inside{ignored: "opencode.json"}.notices()
	if len(got) != 2 || !strings.Contains(got[0], "install ripgrep") || !strings.Contains(got[1], "this project's opencode.json") {
		t.Errorf("notices %q", got)
	}
}

func TestWhatIsMissing(t *testing.T) {
	missing := errors.New("opencode is not installed; run gander agent install opencode")
	a := New(func() (Settings, error) { return Settings{}, missing }, Options{})
	if err := a.Check(t.Context()); !errors.Is(err, missing) {
		t.Errorf("Check: %v", err)
	}
	if _, err := a.Open(t.Context(), box{}, sandbox.SessionParams{}); !errors.Is(err, missing) {
		t.Errorf("Open: %v", err)
	}
	if a.Mounts() != nil || a.Defaults().Modes != nil {
		t.Errorf("mounts %v, defaults %+v", a.Mounts(), a.Defaults())
	}
	_, err := agentWith(Settings{Command: []string{"opencode"}}).Open(t.Context(), box{}, sandbox.SessionParams{})
	if err == nil || !strings.Contains(err.Error(), "preparing the sandbox for opencode: not here") {
		t.Errorf("Open: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	a := agentWith(Settings{Model: "small", Mode: "plan", Mounts: []sandbox.Mount{{Path: "/opt/opencode"}}})
	st := a.Defaults()
	if st.Modes.CurrentModeID != "plan" || len(st.Modes.AvailableModes) != 3 {
		t.Errorf("modes %+v", st.Modes)
	}
	if o := acpagent.Option(st.ConfigOptions, acp.CategoryModel); o == nil || acpagent.StringValue(o) != "custom/small" {
		t.Errorf("options %+v", st.ConfigOptions)
	}
	if a.Name() != "opencode" || len(a.Mounts()) != 1 || a.Check(t.Context()) != nil {
		t.Errorf("name %q, mounts %v", a.Name(), a.Mounts())
	}
	st = agentWith(Settings{}).Defaults()
	if st.Modes.CurrentModeID != "build" || st.ConfigOptions != nil {
		t.Errorf("defaults of nothing: %+v", st)
	}
}

// editor is an acp.Client that keeps what it gets.
type editor struct {
	updates []string
	asked   *acp.RequestPermissionRequest
}

func (e *editor) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	e.updates = append(e.updates, string(n.Update))
	return nil
}

func (e *editor) RequestPermission(_ context.Context, r *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	e.asked = r
	return acp.CancelledOutcome(), nil
}

func testClient(t *testing.T, e *editor) *client {
	t.Helper()
	return newClient(sandbox.SessionParams{WorkingDir: "/workspace", Client: e}, box{}, nil, nil, slog.New(slog.DiscardHandler))
}

func tell(t *testing.T, c *client, updates ...string) {
	t.Helper()
	for _, u := range updates {
		if err := c.SessionUpdate(t.Context(), &acp.SessionNotification{Update: json.RawMessage(u)}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommands(t *testing.T) {
	e := new(editor)
	c := testClient(t, e)
	const commands = `{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"init"},{"name":"review"}]}`
	tell(t, c, commands, commands)
	for name, want := range map[string]bool{"init": true, "review": true, "compact": true, "etc/hosts": false, "Init": false} {
		if got := c.knows(t.Context(), name); got != want {
			t.Errorf("knows(%q) = %v", name, got)
		}
	}
	if len(e.updates) != 2 {
		t.Errorf("passed on: %q", e.updates)
	}
}

// A cancelled turn ends with the news that the context is empty.
func TestEmptyUsage(t *testing.T) {
	e := new(editor)
	const usage = `{"sessionUpdate":"usage_update","used":7,"size":9}`
	tell(t, testClient(t, e), usage, `{"sessionUpdate":"usage_update","used":0,"size":9}`)
	if diff := cmp.Diff([]string{usage}, e.updates); diff != "" {
		t.Errorf("passed on (-want +got):\n%s", diff)
	}
}

func TestQuestions(t *testing.T) {
	e := new(editor)
	c := testClient(t, e)
	c.mend.tag = "t"
	tell(t, c, `{"sessionUpdate":"tool_call","toolCallId":"call_0","title":"edit"}`)
	_, err := c.RequestPermission(t.Context(), &acp.RequestPermissionRequest{
		ToolCall: json.RawMessage(`{"toolCallId":"call_0","content":[{"type":"diff","path":"/workspace/a.txt","oldText":"old","newText":"new"}]}`),
	})
	if err != nil || !strings.Contains(string(e.asked.ToolCall), `"toolCallId":"call_0-t1"`) {
		t.Errorf("asked %s: %v", e.asked.ToolCall, err)
	}
	if diff := cmp.Diff(map[string]proposal{"/workspace/a.txt": {"call_0", digest("old")}}, c.writes.proposals, cmp.AllowUnexported(proposal{})); diff != "" {
		t.Errorf("proposals (-want +got):\n%s", diff)
	}
}

func TestWriteRequests(t *testing.T) {
	c := testClient(t, new(editor))
	for params, want := range map[string]string{
		`{"path":"/etc/passwd","content":"x"}`:            "/etc/passwd is not in the project /workspace",
		`{"path":"/workspace/../etc/x","content":"x"}`:    "is not in the project",
		`{"path":"a.txt","content":"x"}`:                  "is not in the project",
		`{"path":"/workspace","content":"x"}`:             "is not in the project",
		`{"path":"/workspace/a"}`:                         "path and content must be strings",
		`{"path":7,"content":"x"}`:                        "path and content must be strings",
		`{"path":"/workspace/a.txt","content":"written"}`: "writing /workspace/a.txt in the sandbox: not here",
	} {
		_, err := c.HandleRequest(t.Context(), methodWriteTextFile, []byte(params))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", params, err, want)
		}
	}
	if _, err := c.HandleRequest(t.Context(), "terminal/create", []byte("{}")); !errors.Is(err, acp.ErrMethodNotFound) {
		t.Errorf("another request: %v", err)
	}
}

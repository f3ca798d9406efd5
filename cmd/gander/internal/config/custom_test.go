//go:build unix

package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const duck = `"duck": {"command": ["/bin/sh", "--acp", "{modelUrlV1}"], "env": {"OPENAI_API_KEY": "{key}", "BASE": "{modelUrlV1}", "MODEL": "{model}", "JSON": "{\"a\": 1}"}}`

func TestCustomAgents(t *testing.T) {
	c := mustLoad(t, `{"agent": "duck", "agents": {"swan": {"command": ["/bin/sh"]}, `+duck+`, "goose": {"mode": "auto"}}}`, "")
	if diff := cmp.Diff([]string{"goose", "opencode", "duck", "swan"}, c.AgentNames()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if c.Agent != "duck" {
		t.Errorf("agent %q", c.Agent)
	}
	command, err := c.FindAgent("duck")
	if diff := cmp.Diff([]string{"/bin/sh", "--acp", "{modelUrlV1}"}, command); diff != "" || err != nil {
		t.Errorf("command: %v\n%s", err, diff)
	}
}

func TestCustomAgentErrors(t *testing.T) {
	entry := func(name, more string) string {
		return `{"agents": {"` + name + `": {"command": ["/bin/sh"]` + more + `}}}`
	}
	tests := []struct{ name, user, want string }{
		{"no command", `{"agents": {"duck": {"model": "m"}}}`, `:1:13: agents.duck: unknown agent; known here: goose, opencode, and any that has a "command"`},
		{"near miss without a command", `{"agents": {"opencod": {}}}`, `agents.opencod: unknown key; did you mean "opencode"?`},
		{"name", entry("Duck 1", ""), `agents.Duck 1: "Duck 1" cannot be an agent's name; want small letters`},
		{"path as a name", entry("../x", ""), `cannot be an agent's name`},
		{"long name", entry(strings.Repeat("d", 33), ""), `cannot be an agent's name`},
		{"reserved", entry("orchestrator", ""), `agents.orchestrator.command: the orchestrator runs in gander itself`},
		{"empty command", `{"agents": {"duck": {"command": []}}}`, `agents.duck.command: is empty; want the program with all of its arguments`},
		{"secret", entry("duck", `, "env": {"OPENAI_API_KEY": "sk"}`), `agents.duck.env.OPENAI_API_KEY: OPENAI_API_KEY holds a secret by its name, and no secret enters a sandbox; write {key}`},
		{"secret around a placeholder", entry("duck", `, "env": {"A_TOKEN": "x{key}"}`), `agents.duck.env.A_TOKEN: A_TOKEN holds a secret`},
		{"no variable", entry("duck", `, "env": {"A B": "{key}"}`), `agents.duck.env.A B: "A B" is not the name`},
		{"placeholder", entry("duck", `, "env": {"A": "{modelurl}"}`), `agents.duck.env.A: {modelurl} is not a placeholder; did you mean {modelUrl}?`},
		{"placeholder in the command", `{"agents": {"duck": {"command": ["/bin/sh", "{modelURLV1}"]}}}`, `agents.duck.command[1]: {modelURLV1} is not a placeholder; did you mean {modelUrlV1}?`},
		{"path", entry("duck", `, "readOnlyPaths": ["lib"]`), `agents.duck.readOnlyPaths[0]: "lib" is not an absolute path`},
		{"key of a known agent", `{"agents": {"goose": {"env": {"OPENAI_API_KEY": "{key}"}}}}`, `agents.goose.env.OPENAI_API_KEY: OPENAI_API_KEY holds a secret`},
		{"unknown choice", `{"agent": "swan", "agents": {` + duck + `}}`, `:1:11: agent: "swan" is not one of goose, opencode, duck`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadWith(t, tt.user, "")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v\nwant %s", err, tt.want)
			}
		})
	}
}

// A project chooses among the agents that the user has, and adds none.
func TestCustomAgentsAndProjects(t *testing.T) {
	user := `{"agents": {` + duck + `}}`
	c := mustLoad(t, user, `{"agent": "duck", "agents": {"duck": {"model": "small"}}}`)
	if c.Agent != "duck" || c.Agents["duck"].Model != "small" || len(c.Agents["duck"].Command) != 3 {
		t.Errorf("agent %q: %+v", c.Agent, c.Agents["duck"])
	}
	for project, want := range map[string]string{
		`{"agents": {"swan": {"command": ["./evil"]}}}`:  "agents.swan.command: not allowed in a project's file: a project must not choose what runs",
		`{"agents": {"swan": {"model": "m"}}}`:           "agents.swan: unknown agent",
		`{"agents": {"duck": {"readOnlyPaths": ["/"]}}}`: "agents.duck.readOnlyPaths: not allowed",
		`{"agent": "swan"}`:                              `agent: "swan" is not one of goose, opencode, duck`,
	} {
		if _, err := loadWith(t, user, project); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", project, err, want)
		}
	}
}

func TestCustomAgentFlag(t *testing.T) {
	o := Options{Home: t.TempDir(), Flags: Flags{Agent: "duck"}}
	if _, err := Load(o); err == nil || !strings.Contains(err.Error(), `--agent: "duck" is not one of goose, opencode`) {
		t.Errorf("without the agent: %v", err)
	}
	write(t, filepath.Join(o.Home, UserFile), `{"agents": {`+duck+`}}`)
	if c, err := Load(o); err != nil || c.Agent != "duck" {
		t.Errorf("with the agent: %+v, %v", c, err)
	}
}

func TestCustomAgentVariables(t *testing.T) {
	c := mustLoad(t, `{"agents": {"my-duck": {"command": ["/bin/sh"]}}}`, "",
		"MY_DUCK_LLM_HOST=http://a/v1/", "LLM_HOST=http://b", "MY_DUCK_MODEL=custom/m", "GANDER_MY_DUCK_CMD=/bin/sh -x")
	e, err := c.Endpoint("my-duck")
	if err != nil || e.BaseURL != "http://a" || e.Model != "custom/m" {
		t.Errorf("endpoint %+v, %v", e, err)
	}
	command, err := c.FindAgent("my-duck")
	if diff := cmp.Diff([]string{"/bin/sh", "-x"}, command); diff != "" || err != nil {
		t.Errorf("command: %v\n%s", err, diff)
	}
	if _, err := mustLoad(t, "", "").FindAgent("swan"); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "agents.swan.command or in GANDER_SWAN_CMD") {
		t.Errorf("no such agent: %v", err)
	}
}

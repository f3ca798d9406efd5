package opencode

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// version is the opencode that this package is tested with.
const version = "1.18.33"

var (
	//go:embed opencode.json
	template []byte
	//go:embed prepare.sh
	prepareScript string
	//go:embed write.sh
	writeScript string
)

// inside is what prepare found in a sandbox.
type inside struct {
	bash, rg     string   // paths of the programs; empty without
	instructions string   // the project's file of instructions; empty without
	ignored      string   // the project's own configuration of opencode; empty without
	isolated     bool     // the sandbox decides what can be seen
	models       []string // the endpoint's, besides the configured one
	developer    bool     // gander's developer server has the tools
	children     bool     // what sub-agents do can be seen
}

// prepare makes the directories that opencode is to find and looks at what is there.
func prepare(ctx context.Context, sb sandbox.Sandbox, s Settings, dir string) (inside, error) {
	home := sb.Info().Home
	if direct {
		in, err := prepareHere(home, dir, s.Command[0])
		if err != nil {
			return inside{}, fmt.Errorf("preparing the home of opencode: %w", err)
		}
		return in, nil
	}
	out, err := run(ctx, sb, sandbox.Command{
		Args: []string{"sh", "-c", prepareScript, "prepare", home, s.Command[0], version},
		Env:  acpagent.With(s.Env, sandbox.HomeEnvironment(home)...), Dir: dir,
	}, nil)
	if err != nil {
		return inside{}, fmt.Errorf("preparing the sandbox for opencode: %w", err)
	}
	in := parseInside(out)
	in.isolated = sb.Info().Isolated
	return in, nil
}

func parseInside(out string) inside {
	var in inside
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch name {
		case "bash":
			in.bash = value
		case "rg":
			in.rg = value
		case "instructions":
			in.instructions = value
		case "ignored":
			in.ignored = value
		}
	}
	return in
}

// notices are what a person should know of what was found.
func (in inside) notices() []string {
	var notices []string
	if in.rg == "" && !in.developer {
		notices = append(notices, "opencode's grep and glob tools are off, and its skill tool fails: they need ripgrep, and there is no program rg in the sandbox's PATH; install ripgrep to have them.")
	}
	if in.ignored != "" {
		notices = append(notices, fmt.Sprintf("opencode does not read this project's %s: a repository must not choose what runs and where prompts go. Its AGENTS.md is read.", in.ignored))
	}
	return notices
}

// config is the template with what was found.
func (in inside) config() (string, error) {
	var c map[string]any
	if err := json.Unmarshal(template, &c); err != nil {
		return "", fmt.Errorf("reading the template of opencode's configuration: %w", err)
	}
	in.offer(c)
	if in.instructions != "" {
		c["instructions"] = []string{in.instructions}
	}
	if in.rg == "" {
		c["tools"] = map[string]bool{"grep": false, "glob": false} // they would try to download it
	}
	if permission, ok := c["permission"].(map[string]any); ok && !in.isolated {
		delete(permission, "external_directory")
	}
	if in.children {
		allowChildren(c)
	}
	if in.developer {
		onlyDeveloper(c)
	}
	out, err := json.Marshal(c)
	return string(out), err
}

// offer adds the endpoint's models, each with what the template says of the configured one.
func (in inside) offer(c map[string]any) {
	providers, _ := c["provider"].(map[string]any)
	custom, _ := providers[provider].(map[string]any)
	models, _ := custom["models"].(map[string]any)
	for _, configured := range models {
		for _, name := range in.models {
			entry := maps.Clone(configured.(map[string]any))
			entry["name"] = name
			models[name] = entry
		}
		return
	}
}

// askingChild is the sub-agent of mode ask.
const askingChild = "general-ask"

// allowChildren lets the modes start sub-agents that may do no more than they. Each asks first,
// which gander answers when it listens; see children.go.
func allowChildren(c map[string]any) {
	agents, _ := c["agent"].(map[string]any)
	ask, _ := agents["ask"].(map[string]any)
	asking, _ := ask["permission"].(map[string]any)
	agents["build"] = map[string]any{"permission": map[string]any{taskTool: map[string]string{"general": "ask", "explore": "ask"}}}
	agents["plan"] = map[string]any{"permission": map[string]any{taskTool: map[string]string{"explore": "ask"}}}
	agents[askingChild] = map[string]any{
		"mode": "subagent", "permission": maps.Clone(asking),
		"description": "General-purpose agent for researching complex questions and executing multi-step tasks. It asks before it edits files, runs commands or fetches pages.",
	}
	asking[taskTool] = map[string]string{askingChild: "ask"}
}

// serverTime is how long a call of the developer server may take, in milliseconds:
// its tools have limits of their own.
const serverTime = 24 * 60 * 60 * 1000

// onlyDeveloper leaves opencode no tools but the developer server's. Permissions
// are a second lock: opencode's own tools would be refused, too.
func onlyDeveloper(c map[string]any) {
	const all, ours = "*", "developer_*"
	c["tools"] = map[string]bool{all: false, ours: true}
	c["permission"] = map[string]string{all: "deny", ours: "allow"}
	c["experimental"] = map[string]any{"mcp_timeout": serverTime}
	asking := map[string]string{all: "deny", ours: "ask"}
	if agents, ok := c["agent"].(map[string]any); ok {
		if ask, ok := agents["ask"].(map[string]any); ok {
			ask["permission"] = asking
		}
		agents["plan"] = map[string]any{"permission": asking} // it must not edit unasked
	}
}

// environment is opencode's whole environment. What is set here wins over s.Env:
// it is what keeps opencode in its sandbox. The password keeps what the model
// runs from opencode's own control port.
func (in inside) environment(s Settings, home, modelAddr, modelToken, password string) ([]string, error) {
	config, err := in.config()
	if err != nil {
		return nil, err
	}
	ours := append(sandbox.HomeEnvironment(home),
		"TMPDIR="+filepath.Join(home, ".tmp"),
		"XDG_CONFIG_HOME="+filepath.Join(home, ".config"),
		"XDG_DATA_HOME="+filepath.Join(home, ".local", "share"),
		"XDG_STATE_HOME="+filepath.Join(home, ".local", "state"),
		"XDG_CACHE_HOME="+filepath.Join(home, ".cache"),
		"OPENCODE_LLM_HOST=http://"+modelAddr+"/v1",
		"LLM_API_KEY="+modelToken,
		"OPENCODE_MODEL="+quoted(modelID(s.Model)),
		"OPENCODE_MODEL_NAME="+quoted(s.Model),
		"OPENCODE_CONFIG_CONTENT="+config,
		"OPENCODE_SERVER_PASSWORD="+password,
		"OPENCODE_PURE=1", // no plugins from outside
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"OPENCODE_DISABLE_EMBEDDED_WEB_UI=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_PROJECT_CONFIG=1",
		"OPENCODE_DISABLE_SHARE=1",
		"OPENCODE_DISABLE_TERMINAL_TITLE=1",
	)
	if in.bash != "" {
		ours = append(ours, "SHELL="+in.bash) // models write for the tool's name
	}
	return acpagent.With(s.Env, ours...), nil
}

// quoted is s as the inside of a JSON string: opencode puts variables into its
// configuration as they are.
func quoted(s string) string {
	raw, _ := json.Marshal(s) // a string always marshals
	return string(raw[1 : len(raw)-1])
}

// outputLimit bounds what is kept of a script's output, in bytes.
const outputLimit = 64 << 10

// run runs a script of ours in the sandbox and returns what it printed.
func run(ctx context.Context, sb sandbox.Sandbox, cmd sandbox.Command, stdin []byte) (string, error) {
	return acpagent.RunScript(ctx, sb, cmd, stdin, outputLimit)
}

package clients

import (
	"fmt"
	"os"
	"path/filepath"
)

// Targets are the programs, editors first.
func Targets() []*Target {
	return []*Target{zed(), jetbrains(), vscode(), neovim(), emacs(), acpx(), goose(), opencode()}
}

func zed() *Target {
	return &Target{
		Name: "zed", Title: "Zed", DefaultName: "Gander",
		file: func(p Place, _ string) string {
			if p.OS == "windows" {
				return filepath.Join(p.appData(), "Zed", "settings.json")
			}
			if p.OS == "darwin" { // it does not look at XDG_CONFIG_HOME there
				return filepath.Join(p.Home, ".config", "zed", "settings.json")
			}
			return filepath.Join(p.config(), "zed", "settings.json")
		},
		format: jsonFormat{
			path: func(e Entry) []string { return []string{"agent_servers", e.Name} },
			members: func(e Entry) []member {
				return append([]member{{key: "type", value: "custom"}}, starting(e)...)
			},
		},
		next: func(_ string, e Entry) string {
			return fmt.Sprintf("in Zed: open the agent panel and choose %q in its menu for new threads", e.Name)
		},
	}
}

// starting are the members that most clients want: the command, its arguments,
// and variables, which are the person's.
func starting(e Entry) []member {
	return []member{{key: "command", value: e.Command}, {key: "args", value: e.Args}, {key: "env", value: object{}, keep: true}}
}

func jetbrains() *Target {
	return &Target{
		Name: "jetbrains", Title: "the JetBrains IDEs", DefaultName: "Gander",
		file: func(p Place, _ string) string { return filepath.Join(p.Home, ".jetbrains", "acp.json") },
		format: jsonFormat{
			path:    func(e Entry) []string { return []string{"agent_servers", e.Name} },
			members: starting,
		},
		next: func(_ string, e Entry) string {
			return fmt.Sprintf("in the IDE: open AI Chat and choose %q among the agents", e.Name)
		},
	}
}

func vscode() *Target {
	return &Target{
		Name: "vscode", Title: "VS Code with the extension acp-client", DefaultName: "Gander",
		file: func(p Place, _ string) string {
			switch p.OS {
			case "windows":
				return filepath.Join(p.appData(), "Code", "User", "settings.json")
			case "darwin":
				return filepath.Join(p.Home, "Library", "Application Support", "Code", "User", "settings.json")
			}
			return filepath.Join(p.config(), "Code", "User", "settings.json")
		},
		format: jsonFormat{
			path:    func(e Entry) []string { return []string{"acp.agents", e.Name} },
			members: starting,
		},
		next: func(string, Entry) string {
			return "in VS Code: install the extension formulahendry.acp-client and connect to the agent in its view"
		},
	}
}

func acpx() *Target {
	return &Target{
		Name: "acpx", Title: "acpx", DefaultName: "gander",
		file: func(p Place, _ string) string { return filepath.Join(p.Home, ".acpx", "config.json") },
		format: jsonFormat{
			path: func(e Entry) []string { return []string{"agents", e.Name} },
			members: func(e Entry) []member {
				return []member{{key: "command", value: e.Command}, {key: "args", value: e.Args}}
			},
		},
		next: func(_ string, e Entry) string { return fmt.Sprintf("try it: acpx %s exec \"hello\"", e.Name) },
	}
}

// opencodeTimeout is how long opencode waits for one tool call, in milliseconds;
// its own default of a minute is too short for a build.
const opencodeTimeout = 3_600_000

func opencode() *Target {
	return &Target{
		Name: "opencode", Title: "opencode", DefaultName: "developer", MCP: true,
		file: func(p Place, _ string) string {
			dir := filepath.Join(p.config(), "opencode")
			if file := filepath.Join(dir, "opencode.jsonc"); isThere(file) {
				return file
			}
			return filepath.Join(dir, "opencode.json")
		},
		format: jsonFormat{
			path: func(e Entry) []string { return []string{"mcp", e.Name} },
			members: func(e Entry) []member {
				return []member{
					{key: "type", value: "local"},
					{key: "command", value: append([]string{e.Command}, e.Args...)},
					{key: "enabled", value: true, keep: true},
					{key: "timeout", value: opencodeTimeout, keep: true},
					{key: "environment", value: object{}, keep: true},
				}
			},
		},
		next: func(string, Entry) string { return "try it: opencode mcp list" },
	}
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func goose() *Target {
	return &Target{
		Name: "goose", Title: "goose", DefaultName: "gander", MCP: true,
		file: func(p Place, _ string) string {
			if p.OS == "windows" {
				return filepath.Join(p.appData(), "Block", "goose", "config", "config.yaml")
			}
			return filepath.Join(p.config(), "goose", "config.yaml")
		},
		format: gooseFormat{},
		next: func(string, Entry) string {
			return "goose's own developer extension is switched off, gander's has its name; new sessions use it"
		},
	}
}

func neovim() *Target {
	return &Target{
		Name: "neovim", Title: "Neovim", DefaultName: "gander", Plugins: []string{"codecompanion", "avante"},
		file: func(p Place, plugin string) string {
			dir := filepath.Join(p.config(), "nvim")
			if p.OS == "windows" {
				dir = filepath.Join(p.Home, "AppData", "Local", "nvim")
			}
			return filepath.Join(dir, "lua", "gander_"+plugin+".lua")
		},
		format: ownFile{comment: "--", body: neovimModule},
		next:   neovimNext,
	}
}

func emacs() *Target {
	return &Target{
		Name: "emacs", Title: "Emacs with agent-shell", DefaultName: "Gander",
		file: func(p Place, _ string) string {
			dir := filepath.Join(p.Home, ".emacs.d")
			if !isThere(dir) && isThere(filepath.Join(p.config(), "emacs")) {
				dir = filepath.Join(p.config(), "emacs")
			}
			return filepath.Join(dir, "gander-agent-shell.el")
		},
		format: ownFile{comment: ";;", first: " -*- lexical-binding: t; -*-", body: emacsModule},
		next: func(string, Entry) string {
			return `add this line to your init file, which does nothing without the file: (load (locate-user-emacs-file "gander-agent-shell.el") t)`
		},
	}
}

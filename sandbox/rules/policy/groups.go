package policy

// Group is a kind of files that is protected together.
type Group struct {
	// Name is used as "@name" in Writes.
	Name string
	// Default says that the group is protected unless Writes.Allow names it.
	Default bool
	// Why says what would happen if the agent could write them.
	Why string
	// Patterns are the files; see [Pattern]. What git keeps in its directories is
	// recognised by more than patterns: see gitDir.
	Patterns []string
	// Open are files among them that run nothing. A directory that is to hold such can be made.
	Open []string
}

// Groups are the files that make the person's machine, and not the agent's
// sandbox, do something when the person next uses git, an editor, a shell or
// another agent in the project, without asking it to run the project.
//
// What a person runs by hand (make, npm, go generate, a build file) is the project
// itself and is not protected, nor are files that only tell an agent something and
// that people ask agents to write (AGENTS.md, CLAUDE.md, .goosehints): read the
// difference before you use them.
func Groups() []Group {
	return []Group{
		{
			Name: "git", Default: true, Why: "git runs what its configuration and hooks name",
			Patterns: []string{".gitconfig", ".config/git"},
		},
		{
			Name: "hooks", Default: true, Why: "hooks of git, or another program for versions, run it at the next commit or checkout",
			Patterns: []string{
				".husky", ".githooks", ".git-hooks", ".git_hooks", "lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json", "lefthook.jsonc",
				"lefthook-local.*", ".lefthook", ".lefthook.*", ".lefthook-local", ".lefthook-local.*",
				".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml", ".overcommit.yml",
				".git-hooks.d", "captainhook*.json", ".captainhook.json", ".simple-git-hooks.json", ".simple-git-hooks.js", ".simple-git-hooks.cjs",
				".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml",
			},
		},
		{
			Name: "editor", Default: true, Why: "an editor runs tasks, language servers and debuggers that it names",
			Patterns: []string{
				".vscode", "*.code-workspace", ".idea", ".zed", ".vs", ".fleet", ".helix", ".nova", ".vim", ".nvim", ".exrc",
				".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".vimspector.json", "*.sublime-project", "*.sublime-workspace",
				".dir-locals.el", ".dir-locals-2.el", ".projectile", ".kakrc", ".devcontainer", ".devcontainer.json", ".lapce",
				".gdbinit", ".lldbinit",
			},
			Open: []string{
				".vscode/extensions.json", ".vscode/*.code-snippets", ".idea/.gitignore", ".idea/codeStyles/*.xml", ".idea/inspectionProfiles/*.xml",
				".idea/dictionaries/*.xml", ".idea/vcs.xml",
			},
		},
		{
			Name: "agent", Default: true, Why: "an agent outside of a sandbox takes commands, servers and permissions from it",
			Patterns: []string{
				".gander.json", ".goose", ".opencode", "opencode.json", "opencode.jsonc", ".mcp.json", ".claude", ".cursor", ".codex",
				".gemini", ".windsurf", ".continue", ".roo", ".kilocode", ".amazonq", ".kiro", ".junie", ".aider.conf.yml", ".qwen",
				".crush.json", "crush.json", ".crush", ".agents", ".amp", ".factory", ".vibe", ".openhands",
				".cline", ".clinerules/hooks", ".augment", ".github/hooks",
			},
		},
		{
			Name: "shell", Default: true, Why: "a shell, also of a language, runs it when it starts, or when a person enters the directory",
			Patterns: []string{
				".envrc", ".envrc.*", ".direnv", ".direnvrc", ".config/direnv", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh",
				"mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml", "mise/config*.toml", "mise/conf.d", ".mise", ".config/mise",
				".miserc*.toml", ".config/miserc*.toml", ".rtx.toml", ".rtx.*.toml", ".bashrc", ".bash_profile", ".bash_login",
				".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc",
				".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xprofile", ".xinitrc", ".xsession", ".config/fish", ".ssh",
				".config/autostart", ".config/systemd", ".tmux.conf", ".screenrc", "devbox.json", ".devenv.flake.nix",
				".Rprofile", ".irbrc", ".pryrc", ".iex.exs", ".ghci",
			},
		},
		{
			Name: "ci", Why: "it runs with the project's secrets once it is pushed",
			Patterns: []string{
				".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows", ".gitlab-ci.yml", ".gitlab-ci", ".circleci",
				"Jenkinsfile", ".travis.yml", "azure-pipelines.yml", ".azure-pipelines", "bitbucket-pipelines.yml", ".drone.yml",
				".woodpecker.yml", ".woodpecker", ".buildkite", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", "cloudbuild.yaml",
			},
		},
	}
}

// Always is protected whatever Writes.Allow says: the sandbox's own rules, and the files
// that an undo (see package changes) is about to put where the agent cannot write. A
// descriptor that is opened before would write there.
func Always() []string { return []string{".gander.json", ".gooseignore", ".gander-undo-*"} }

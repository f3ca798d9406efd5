package policy

import (
	"strings"
	"testing"
)

func protection(t *testing.T, w Writes, gitDirs ...string) *Protection {
	t.Helper()
	p, err := NewProtection(w, GitPlaces{Dirs: gitDirs})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProtects(t *testing.T) {
	plain := Writes{}
	for _, tt := range []struct {
		w    Writes
		rel  string
		want string // the rule's name; empty: may be written
	}{
		{plain, ".gander-undo-A7/new-0", ".gander-undo-*"},
		{Writes{Allow: []string{".gander-undo-A7"}}, ".gander-undo-A7/new-0", ".gander-undo-*"},
		{plain, ".gander-undo", ""},
		{plain, ".git", ".git of @git"},
		{plain, ".git/config", ".git/config of @git"},
		{plain, ".git/config.lock", ".git/config.lock of @git"},
		{plain, ".git/hooks/pre-commit", ".git/hooks of @git"},
		{plain, ".GIT/Hooks/pre-commit", ".git/hooks of @git"},
		{plain, ".g\u200cit/config", ".git/config of @git"},
		{plain, "git~1/config", ".git/config of @git"},
		{plain, ".git./config", ".git/config of @git"},
		{plain, "sub/dir/.git/commondir", ".git/commondir of @git"},
		{plain, ".git/x/.git/config", ".git/config of @git"},
		{plain, ".git/modules/a/b/config", ".git/modules/…/config of @git"},
		{plain, ".git/modules/a/hooks/post-checkout", ".git/modules/…/hooks of @git"},
		{plain, ".git/worktrees/w/commondir", ".git/worktrees/…/commondir of @git"},
		{plain, ".git/index", ""},
		{plain, ".git/index.lock", ""},
		{plain, ".git/refs/heads/config", ""},
		{plain, ".git/refs/heads/hooks/x", ""},
		{plain, ".git/objects/ab/cd", ""},
		{plain, ".git/modules/a/objects/ab/cd", ""},
		{plain, ".hg/hgrc", ".hg/hgrc of @hooks"},
		{plain, ".hg/store/data", ""},
		{plain, "a/.jj/repo/config.toml", ".jj/repo/config.toml of @hooks"},
		{plain, ".github/hooks/x.json", ".github/hooks of @agent"},
		{plain, ".github/CODEOWNERS", ""},
		{plain, ".Rprofile", ".Rprofile of @shell"},
		{plain, ".git/remotes/origin", ".git/remotes of @git"},
		{plain, ".git/branches/origin", ".git/branches of @git"},
		{plain, ".git/refs/remotes/origin/main", ""},
		{plain, ".git/refs/heads/branches/x", ""},
		{plain, ".git/modules/a/b/remotes/origin", ".git/modules/…/remotes of @git"},
		{plain, ".git/modules/refs/remotes/origin", ".git/modules/…/remotes of @git"},
		{plain, ".git/modules/a/b/refs/remotes/origin/main", ""},
		{plain, ".git/modules/a/logs/refs/heads/branches/x", ""},
		{plain, ".git/modules/a/refs/b/config", ".git/modules/…/config of @git"},
		{plain, ".git/modules/a/remotes/b/index", ""}, // of the submodule a/remotes/b
		{plain, ".git/modules/remotes/b/objects/ab/cd", ""},
		{plain, ".git/modules/branches/remotes/b/refs/heads/main", ""},
		{plain, ".git/modules/a/remotes", ".git/modules/…/remotes of @git"},
		{plain, ".git/modules/a/remotes/b", ".git/modules/…/remotes of @git"}, // or a remote
		{plain, ".git/modules/a/remotes/b/config", ".git/modules/…/config of @git"},
		{plain, ".git/modules/a/remotes/b/hooks/post-checkout", ".git/modules/…/hooks of @git"},
		{plain, ".git/modules/a/remotes/b/remotes/origin", ".git/modules/…/remotes of @git"},
		{plain, ".git/modules/a/remotes/b/branches/origin", ".git/modules/…/branches of @git"},
		{plain, ".git/modules/remotes/remotes/b", ".git/modules/…/remotes of @git"},
		{plain, ".git/modules/remotes/index", ".git/modules/…/remotes of @git"}, // cannot be told from a remote
		{plain, ".git/remotes/a/b", ".git/remotes of @git"},
		{plain, ".github/workflows/ci.yml", ""},
		{plain, ".gitignore", ""},
		{plain, "hooks/config", ""},
		{plain, ".vscode", ".vscode of @editor"},
		{plain, "a/.VSCode/tasks.json", ".vscode of @editor"},
		{plain, "x.code-workspace", "*.code-workspace of @editor"},
		{plain, "vscode/tasks.json", ""},
		{plain, ".envrc", ".envrc of @shell"},
		{plain, ".config/fish/config.fish", ".config/fish of @shell"},
		{plain, ".config/other", ""},
		{plain, "lefthook.jsonc", "lefthook.jsonc of @hooks"},
		{plain, "sub/lefthook-local.yaml", "lefthook-local.* of @hooks"},
		{plain, "lefthook-local.jsonc", "lefthook-local.* of @hooks"},
		{plain, ".lefthook/pre-commit/x", ".lefthook of @hooks"},
		{plain, ".lefthook.yml", ".lefthook.* of @hooks"},
		{plain, ".lefthook-local.toml", ".lefthook-local.* of @hooks"},
		{plain, ".lefthook-local/pre-commit/x", ".lefthook-local of @hooks"},
		{plain, ".config/lefthook-local.yml", "lefthook-local.* of @hooks"},
		{plain, "prek.toml", "prek.toml of @hooks"},
		{plain, "captainhook.json", "captainhook*.json of @hooks"},
		{plain, "captainhook.config.json", "captainhook*.json of @hooks"},
		{plain, ".envrc.local", ".envrc.* of @shell"},
		{plain, ".config/direnv/direnvrc", ".config/direnv of @shell"},
		{plain, "mise/config.ci.toml", "mise/config*.toml of @shell"},
		{plain, "mise/conf.d/a.toml", "mise/conf.d of @shell"},
		{plain, "mise.ci.toml", "mise.*.toml of @shell"},
		{plain, "mise.ci.local.toml", "mise.*.toml of @shell"},
		{plain, ".mise.ci.toml", ".mise.*.toml of @shell"},
		{plain, ".config/mise.ci.toml", "mise.*.toml of @shell"},
		{plain, ".rtx.local.toml", ".rtx.*.toml of @shell"},
		{plain, ".miserc.toml", ".miserc*.toml of @shell"},
		{plain, ".miserc.ci.toml", ".miserc*.toml of @shell"},
		{plain, ".clinerules/hooks/PreToolUse", ".clinerules/hooks of @agent"},
		{plain, ".config/miserc.toml", ".config/miserc*.toml of @shell"},
		{plain, "lefthook.md", ""},
		{plain, "lefthook-local", ""},
		{plain, "captainhook.md", ""},
		{plain, ".clinerules/style.md", ""},
		{plain, "mise/README.md", ""},
		{plain, "mise.md", ""},
		{plain, ".env.example", ""},
		{plain, ".gander.json", ".gander.json"},
		{plain, "sub/.gooseignore", ".gooseignore"},
		{plain, "AGENTS.md", ""},
		{plain, "node_modules/p/.vscode/settings.json", ""},
		{plain, "node_modules/p/.git/config", ".git/config of @git"},
		{plain, "Makefile", ""},
		{Writes{Protect: []string{"@ci"}}, ".github/workflows/ci.yml", ".github/workflows of @ci"},
		{Writes{Protect: []string{"@ci"}}, ".github/CODEOWNERS", ""},
		{Writes{Protect: []string{"/deploy"}}, "deploy/x", "/deploy"},
		{Writes{Protect: []string{"/deploy"}}, "a/deploy/x", ""},
		{Writes{Protect: []string{"a/b"}}, "x/a/b/c", "a/b"},
		{Writes{Protect: []string{"*.tf"}}, "x/main.TF", "*.tf"},
		{Writes{Allow: []string{"@editor"}}, ".vscode/tasks.json", ""},
		{Writes{Allow: []string{".vscode/settings.json"}}, ".vscode/settings.json", ""},
		{Writes{Allow: []string{".vscode/settings.json"}}, ".vscode/tasks.json", ".vscode of @editor"},
		{Writes{Allow: []string{"@git"}}, ".git/config", ""},
		{Writes{Allow: []string{"@agent", ".gander.json", ".gooseignore"}}, ".gander.json", ".gander.json"},
	} {
		r, ok := protection(t, tt.w).Protects(tt.rel)
		if got := r.Name(); ok != (tt.want != "") || got != tt.want {
			t.Errorf("%q under %+v: %q, %v; want %q", tt.rel, tt.w, got, ok, tt.want)
		}
	}
}

// Files that git uses, and those that links lead to, are protected among dependencies,
// too, also where their names are a group's.
func TestProtectsAmongDependencies(t *testing.T) {
	places := GitPlaces{Files: []string{"vendor/.githooks"}, Linked: []string{"node_modules/cfg/.vscode"}}
	p, err := NewProtection(Writes{}, places)
	if err != nil {
		t.Fatal(err)
	}
	for rel, want := range map[string]string{
		"vendor/.githooks/pre-commit":            "/vendor/.githooks",
		"node_modules/cfg/.vscode/settings.json": "/node_modules/cfg/.vscode",
		"node_modules/cfg/.vscode/.gander.json":  ".gander.json",
		"vendor/x/.githooks/pre-commit":          "",
		"node_modules/x/.vscode/settings.json":   "",
		".githooks/pre-commit":                   ".githooks of @hooks",
	} {
		if r, ok := p.Protects(rel); ok != (want != "") || r.Name() != want {
			t.Errorf("%s: %q, %v; want %q", rel, r.Name(), ok, want)
		}
	}
	if p, err := NewProtection(Writes{}, GitPlaces{Files: []string{"\u200c/x"}}); err != nil {
		t.Fatal(err) // a name of nothing that counts
	} else if _, ok := p.Protects("a/x"); ok {
		t.Error("a name of nothing is any name")
	}
	p, err = NewProtection(Writes{Allow: []string{".githooks"}}, places)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := p.Protects("vendor/.githooks/pre-commit"); ok {
		t.Errorf("what the policy allows is protected by %q", r.Name())
	}
}

// TestProtectsGitDirs: git's directory may have another name, or be the project.
func TestProtectsGitDirs(t *testing.T) {
	p := protection(t, Writes{}, "real.git")
	if _, ok := p.Protects("real.git/config"); !ok {
		t.Error("the directory that .git leads to is open")
	}
	if _, ok := p.Protects("real.git"); !ok {
		t.Error("the directory that .git leads to can be renamed")
	}
	if _, ok := protection(t, Writes{}, "").Protects("hooks/post-receive"); !ok {
		t.Error("a bare repository is open")
	}
}

func TestMayMove(t *testing.T) {
	plain := protection(t, Writes{})
	ci := protection(t, Writes{Protect: []string{"@ci"}})
	top := protection(t, Writes{Protect: []string{"/deploy/keys"}})
	free := protection(t, Writes{Allow: []string{"/sandbox/play"}})
	elsewhere := protection(t, Writes{}, "a/real.git")
	bare := protection(t, Writes{}, "")
	for _, tt := range []struct {
		p        *Protection
		from, to string
		want     bool
	}{
		{plain, "a", "b", true},
		{plain, "node_modules/.x-1234", "node_modules/x", true},
		{plain, "x", "node_modules/x", true},
		{plain, "node_modules/x", "x", false},
		{plain, "node_modules", "old", false},
		{plain, ".git/modules/a", ".git/x", false},
		{plain, "x", ".git/modules/a", false},
		{plain, "x", ".git/modules", false},
		{plain, ".git/rebase-apply", ".git/x", true},
		{plain, "c", ".config", false},
		{plain, "tea", ".gitea", true},
		{ci, "tea", ".gitea", false},
		{plain, "gh", ".github", false}, // could have agents' hooks
		{ci, "gh", ".github", false},
		{ci, "gh", "a/.GitHub", false},
		{ci, ".github", "gh", false},
		{top, "a", "b", true},
		{top, "a", "deploy", false},
		{top, "a", "x/deploy", true},
		{free, "sandbox/play/x", "y", false},
		{free, "sandbox", "y", false},
		{free, "sandbox/play/x", "sandbox/play/y", true},
		{elsewhere, "a", "b", false},
		{plain, "x", ".git/logs", false},
		{plain, ".git/x", "x", true},
		{bare, "x", "refs", false},
		{bare, "main/x", "main/y", true},
	} {
		if got := tt.p.MayMove(tt.from, tt.to); got != tt.want {
			t.Errorf("%s → %s: %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

func TestMayLink(t *testing.T) {
	plain := protection(t, Writes{})
	named, err := NewProtection(Writes{}, GitPlaces{Files: []string{"tools/hooks", "a/[b]/inc"}})
	if err != nil {
		t.Fatal(err)
	}
	stars := protection(t, Writes{Protect: []string{"*/keys", "/packages/*/keys", "deploy-*/keys", "/*/x/y", "*/*"}})
	elsewhere := protection(t, Writes{}, "a/real.git")
	bare := protection(t, Writes{}, "")
	for _, tt := range []struct {
		p    *Protection
		rel  string
		want bool
	}{
		{plain, "a", true},
		{plain, "node_modules/.bin/tsc", true},
		{plain, ".venv/bin/python", true},
		{plain, ".config", false},
		{plain, "a/.Config", false},
		{plain, ".config/other", true},
		{plain, ".github", false}, // could have agents' hooks
		{plain, "node_modules/x/.github", true},
		{plain, ".gitignore", true},
		{plain, ".git/modules", false},
		{plain, ".git/modules/refs", false},
		{plain, ".git/refs", false},
		{plain, ".git/COMMIT_EDITMSG", false},
		{plain, "sub/.git/logs/refs/heads/main", false},
		{protection(t, Writes{Protect: []string{"@ci"}}), ".github", false},
		{protection(t, Writes{Allow: []string{"@git"}}), ".git/refs", true},
		{named, "tools", false},
		{named, "TOOLS", false},
		{named, "x/tools", true},
		{named, "tools/other", true},
		{named, "a", false},
		{named, "a/[b]", false},
		{named, "a/c", true},
		{stars, "a", true},
		{stars, "a/b", true},
		{stars, "packages", false},
		{stars, "packages/x", false},
		{stars, "sub/deploy-prod", false},
		{stars, "z/x", false},
		{elsewhere, "a", false},
		{elsewhere, "a/real.git/HEAD", false},
		{elsewhere, "a/real.git/logs/HEAD", false},
		{elsewhere, "a/real.git/main/link", true},
		{bare, "HEAD", false},
		{bare, "logs/HEAD", false},
		{bare, "main/link", true},
	} {
		if got := tt.p.MayLink(tt.rel); got != tt.want {
			t.Errorf("a link at %s: %v, want %v", tt.rel, got, tt.want)
		}
	}
}

// The top of a work tree is not made a repository, and other directories may be.
func TestTopsAreNoRepositories(t *testing.T) {
	p, err := NewProtection(Writes{}, GitPlaces{Works: []string{"a/Sub"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		p    *Protection
		rel  string
		want bool
	}{
		{p, "HEAD", true},
		{p, "head", true},
		{p, "head/x", false},
		{p, "a/sub/HEAD", true},
		{p, "a/HEAD", false},
		{p, "a/sub/b/HEAD", false},
		{p, ".git/HEAD", false},
		{protection(t, Writes{}, ""), "HEAD", false},
		{protection(t, Writes{Allow: []string{"@git"}}), "HEAD", false},
		{protection(t, Writes{Allow: []string{"/HEAD"}}), "HEAD", false},
	} {
		if r, got := tt.p.Protects(tt.rel); got != tt.want || got && r.Entry() != "@git" {
			t.Errorf("%s: %v by %+v, want %v", tt.rel, got, r, tt.want)
		}
	}
}

// What is protected below a link is so where the link leads to, and nothing else there.
func TestInside(t *testing.T) {
	p := protection(t, Writes{Protect: []string{"/deploy/keys/*.pem", "@ci"}, Allow: []string{".hg/hgrc", ".github/actions"}})
	for rel, want := range map[string]string{
		".clinerules": "hooks", "a/.Config": "git direnv mise miserc*.toml fish autostart systemd", ".github": "hooks workflows",
		"deploy": "keys/*.pem", "deploy/keys": "*.pem", "a/deploy": "", ".hg": "hgrc-not-shared sharedpath", ".jj": "repo/config.toml", "node_modules/x/.github": "",
		"node_modules/.config": "git", "AGENTS.md": "",
	} {
		if got, ok := p.Inside(rel); !ok || strings.Join(got, " ") != want {
			t.Errorf("in %s: %q, %v, want %q", rel, got, ok, want)
		}
	}
	if _, ok := p.Inside(".git/logs"); ok {
		t.Error("git's own directories have parts that git does not write")
	}
	beyond, err := NewProtection(Writes{}, GitPlaces{Beyond: []string{Anchor("AGENTS.md", "hooks"), Anchor("a[b]", "miserc*.toml"), Anchor(".", "git")}})
	if err != nil {
		t.Fatal(err)
	}
	for rel, want := range map[string]bool{
		"AGENTS.md": false, "agents.md/hooks": true, "AGENTS.md/hooks/x": true, "AGENTS.md/x": false, "a[b]/miserc.local.toml": true, "a[b]/x": false, "git/config": true, "x/git": false,
	} {
		if _, got := beyond.Protects(rel); got != want {
			t.Errorf("%s: %v, want %v", rel, got, want)
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for _, text := range []string{"", "/", "a//b", "a/../b", ".", "[", "a/**/b"} {
		if _, err := ParsePattern(text); err == nil || !strings.Contains(err.Error(), "not a pattern") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func BenchmarkProtects(b *testing.B) {
	p, err := NewProtection(Writes{}, GitPlaces{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Protects("node_modules/some-package/dist/index.js")
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "512MB": 512 << 20, "4GiB": 4 << 30, "1.5g": 3 << 29, "1000": 1000, "7 kb": 7 << 10} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q = %d, %v; want %d", text, s, err, want)
		}
		again := Size(-1)
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%s reads as %d, %v", s, again, err)
		}
	}
	for _, text := range []string{"", "GB", "-1", "1e30GB", "4 apples"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q = %d", text, s)
		}
	}
}

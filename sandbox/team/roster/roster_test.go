package roster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const reviewer = `---
id: reviewer
# Who reads.
name: Reviewer
description: Reads a change and says what is wrong with it.
provider: opencode            # goose | opencode
tags: [review, "Code Security", review]
delegation: {canReceive: true, canDelegate: false}
priority: 60
model: moonshotai/kimi-k2
access: read
runtime:
  kept: yes
---

You review changes. Name file and line.
`

func TestParse(t *testing.T) {
	got, problem := Parse("reviewer", []byte(reviewer))
	if problem != nil {
		t.Fatal(problem)
	}
	want := Manifest{
		ID: "reviewer", Name: "Reviewer", Description: "Reads a change and says what is wrong with it.", Provider: "opencode",
		Model: "moonshotai/kimi-k2", Access: "read", Tags: []string{"review", "code-security"}, Delegation: Delegation{CanReceive: true},
		Discoverable: true, Priority: 60, Instructions: "You review changes. Name file and line.",
		Lines: map[string]int{"id": 2, "name": 4, "description": 5, "provider": 6, "tags": 7, "delegation.canReceive": 8, "delegation.canDelegate": 8, "priority": 9, "model": 10, "access": 11, "runtime.kept": 13},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	again, problem := Parse("reviewer", []byte(format(got)))
	again.Lines = got.Lines
	if diff := cmp.Diff(got, again); problem != nil || diff != "" {
		t.Errorf("written and read again: %v (-want +got):\n%s", problem, diff)
	}
}

func TestParseForms(t *testing.T) {
	got, problem := Parse("a", []byte("\xef\xbb\xbf---\r\nprovider: 'goose'\r\ntags:\r\n  - one\r\n\r\n  # none\r\n  - \"two\" # and\r\n"+
		"delegation:\r\n  canReceive: no\r\n  canDelegate: 1\r\ndiscoverable: false\r\ndescription: >\r\n  Reads\r\n  all: of it.\r\nname: It's \"#1\" here\r\npriority: \"7\"\r\n---"))
	want := Manifest{
		ID: "a", Name: `It's "#1" here`, Description: "Reads all: of it.", Provider: "goose", Tags: []string{"one", "two"},
		Delegation: Delegation{CanDelegate: true}, Priority: 7, Lines: got.Lines,
	}
	if diff := cmp.Diff(want, got); problem != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", problem, diff)
	}
	if got, problem := Parse("a", []byte("---\nprovider: goose\ndelegation.canDelegate: true\n---\n")); problem != nil || !got.Delegation.CanDelegate {
		t.Errorf("a key with a dot: %+v, %v", got, problem)
	}
}

func TestParseProblems(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"no front matter", "# Reviewer\n", 1, "want front matter here"},
		{"empty", "", 1, "want front matter here"},
		{"no end", "---\nprovider: goose\n", 1, "has no end"},
		{"twice", "---\nprovider: goose\nname: a\nprovider: opencode\n---\n", 4, "the key provider is there twice; the first is in line 2"},
		{"twice in a map", "---\ndelegation:\n  canReceive: true\n  canReceive: false\n---\n", 4, "delegation.canReceive is there twice"},
		{"twice in both ways", "---\ndelegation: {canReceive: true}\ndelegation.canReceive: true\n---\n", 3, "twice; the first is in line 2"},
		{"no key", "---\nprovider: goose\njust words\n---\n", 3, `want a key and its value, as in "name: Reviewer", got "just words"`},
		{"another id", "---\nid: b\n---\n", 2, `id: "b" is not the name of the folder, "a"`},
		{"boolean", "---\ndelegation: {canReceive: perhaps}\n---\n", 2, `delegation.canReceive: "perhaps" is neither true nor false`},
		{"number", "---\npriority: high\n---\n", 2, `priority: "high" is not a whole number`},
		{"access", "---\n\naccess: all\n---\n", 3, `access: "all" is not one of read, write`},
		{"workspace", "---\nworkspaceAccess: mine\n---\n", 2, `"mine" is not one of internal, external, auto`},
		{"list", "---\ntags: [a\n---\n", 2, `tags: the list is not closed`},
		{"text for a list", "---\ntags: a\n---\n", 2, `tags: want a list, as in [review, security]`},
		{"list for a text", "---\nprovider: [goose]\n---\n", 2, `provider: want one text, got a list`},
		{"map for a text", "---\nname: {a: b\n---\n", 2, `name: the map is not closed`},
		{"quote", "---\nname: \"a\n---\n", 2, `name: the quote is not closed`},
		{"control", "---\nname: a\x1b[31m\n---\n", 2, `control character "\x1b"`},
		{"not text", "---\nname: \xff\n---\n", 2, `not text in UTF-8`},
		{"large", "---\n" + strings.Repeat("# more\n", 10000) + "---\n", 9364, "the front matter is larger than 64 KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problem := Parse("a", []byte(tt.text))
			if problem == nil || problem.Line != tt.line || !strings.Contains(problem.Reason, tt.want) || strings.Contains(problem.Reason, "\n") {
				t.Errorf("problem %+v; want line %d: %s", problem, tt.line, tt.want)
			}
		})
	}
}

func TestUnknownKeys(t *testing.T) {
	m, problem := Parse("a", []byte("---\nprovder: x\ncan-delegate: true\ntype: manager\nreportsTo: null\n---\n"))
	want := []string{"line 2: nobody reads the key \"provder\"; did you mean provider?", "line 3: nobody reads the key \"can-delegate\"; did you mean delegation.canDelegate?"}
	if diff := cmp.Diff(want, m.Warnings); problem != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", problem, diff)
	}
}

func store(t *testing.T, files map[string]string) Store {
	t.Helper()
	s := At(t.TempDir())
	for name, text := range files {
		path := filepath.Join(s.Agents, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// One bad manifest hides its own agent, and no other.
func TestRead(t *testing.T) {
	s := store(t, map[string]string{
		"reviewer/AGENTS.md": reviewer, "goose/bin/goose": "", "goose.json": "{}", "bad/AGENTS.md": "---\nname: a\nname: b\n---\n",
		"Odd Name/AGENTS.md": reviewer, "orchestrator/AGENTS.md": reviewer, "huge/AGENTS.md": strings.Repeat("x", maxFile+1),
	})
	outside := filepath.Join(t.TempDir(), "AGENTS.md")
	if err := os.WriteFile(outside, []byte(reviewer), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"linked": filepath.Dir(outside), "file/AGENTS.md": outside} {
		path := filepath.Join(s.Agents, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Skip(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(s.Agents, "folder", File), 0o700); err != nil {
		t.Fatal(err)
	}
	team, problems := s.Read()
	if len(team) != 1 || team[0].ID != "reviewer" || team[0].Path != filepath.Join(s.Agents, "reviewer", File) {
		t.Errorf("team %+v", team)
	}
	want := map[string]string{
		"bad": ":3: the key name is there twice", "Odd Name": `"Odd Name" cannot be an agent's name`, "orchestrator": "is gander's own",
		"huge": "larger than 256 KiB", "linked": "the folder is a link", "file": "it is a link", "folder": "not a regular file",
	}
	for _, p := range problems {
		if want[p.Agent] == "" || !strings.Contains(p.Error(), want[p.Agent]) || !strings.HasPrefix(p.Error(), s.path(p.Agent)) {
			t.Errorf("%s: %s", p.Agent, p.Error())
		}
		delete(want, p.Agent)
	}
	if len(want) > 0 {
		t.Errorf("nothing is said of %v", want)
	}
}

func TestStore(t *testing.T) {
	s := At(t.TempDir())
	m := Manifest{ID: "writer", Name: `W: "1" # one`, Provider: "goose", Discoverable: true, Tags: []string{"go"}, Instructions: "Write."}
	if err := s.Create(m); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(m); err == nil || !strings.Contains(err.Error(), "there is an agent writer already") {
		t.Errorf("created twice: %v", err)
	}
	if info, err := os.Stat(s.path("writer")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	got, err := s.Load("writer")
	m.Description, m.Path, m.Lines = "Agent "+m.Name+".", s.path("writer"), got.Lines
	if diff := cmp.Diff(m, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := s.Delete("writer", false); err != nil {
		t.Error(err)
	}
	if _, err := s.Load("writer"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after deleting: %v", err)
	}
}

// Set changes its key, and nothing else that a person has written.
func TestSetKeepsTheRest(t *testing.T) {
	s := store(t, map[string]string{"reviewer/AGENTS.md": reviewer, "goose/bin/goose": ""})
	err := s.Set("reviewer", map[string]string{"model": "", "priority": "7", "delegation.canDelegate": "true", "tags": "a, b", "description": "All: of it", "mode": "plan"})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		"model: moonshotai/kimi-k2\n", "", "priority: 60", "priority: 7", "canDelegate: false", "canDelegate: true", `[review, "Code Security", review]`, "[a, b]",
		"Reads a change and says what is wrong with it.", `"All: of it"`, "  kept: yes\n", "  kept: yes\nmode: plan\n").Replace(reviewer)
	got, err := os.ReadFile(s.path("reviewer"))
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for key, value := range map[string]string{"priority": "high", "id": "other", "color": "red", "access": "all"} {
		if err := s.Set("reviewer", map[string]string{key: value}); err == nil {
			t.Errorf("%s=%s was taken", key, value)
		}
	}
	if now, _ := os.ReadFile(s.path("reviewer")); string(now) != want {
		t.Error("what was refused was written")
	}
	if err := s.Set("nobody", map[string]string{"name": "x"}); err == nil || !strings.Contains(err.Error(), "there is no manifest") {
		t.Errorf("no such agent: %v", err)
	}
	if err := s.Delete("goose", false); err == nil {
		t.Error("deleted what has no manifest")
	}
	if _, err := os.Stat(filepath.Join(s.Agents, "goose", "bin")); err != nil {
		t.Errorf("the program went with the manifest: %v", err)
	}
}

// Import writes over nothing, follows no link, and a second time changes nothing.
func TestImport(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		"workspaces/developer/AGENTS.md":    "---\nid: Developer\nname: Developer\ndescription: Writes code: all\nprovider: openai\ntags: [Code]\n---\n\n# D\n",
		"workspaces/developer/SOUL.md":      "Calm.\n",
		"workspaces/developer/skills/a/S":   "x",
		"workspaces/plain/AGENTS.md":        "# No front matter\n",
		"workspaces/orchestrator/AGENTS.md": "---\nid: orchestrator\n---\n",
		"workspaces/broken/AGENTS.md":       "---\nname: a\nname: b\n---\n",
		"agents/developer/config.json":      `{"provider":{"id":"codex"},"runtime":{"workspaceAccess":"internal"}}`,
		"providers/openai/config.json":      `{"env":{"OPENAI_API_KEY":"sk-secret"}}`,
	} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("x"), 0o600), os.Symlink(secret, filepath.Join(home, "workspaces/developer/LINK.md"))); err != nil {
		t.Skip(err)
	}
	s := At(t.TempDir())
	if _, err := s.Import(home, "goose", true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Agents); err == nil {
		t.Error("a dry run has written")
	}
	states := func() map[string]string {
		found, err := s.Import(home, "goose", false)
		if err != nil {
			t.Fatal(err)
		}
		states := map[string]string{}
		for _, f := range found {
			states[f.Kind+" "+f.Name] = f.State
			if strings.Contains(f.String(), "sk-secret") {
				t.Errorf("the key is in %q", f)
			}
		}
		return states
	}
	want := map[string]string{"agent developer": "taken", "workspace developer": "taken", "agent plain": "taken", "agent orchestrator": "skipped", "agent broken": "skipped", "provider openai": "skipped"}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	m, err := s.Load("developer")
	if err != nil || m.Provider != "codex-acp" || m.WorkspaceAccess != "internal" || m.Description != "Writes code: all" || m.Instructions != "# D" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := os.Lstat(filepath.Join(s.Workspace("developer"), "LINK.md")); err == nil {
		t.Error("a link was followed")
	}
	before := tree(t, s)
	want["agent developer"], want["workspace developer"], want["agent plain"] = "there", "there", "there"
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("second (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, tree(t, s)); diff != "" {
		t.Errorf("a second time changes:\n%s", diff)
	}
}

// tree returns all files of a store.
func tree(t *testing.T, s Store) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, dir := range []string{s.Agents, s.Workspaces} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			files[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

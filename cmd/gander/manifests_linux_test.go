package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// TestBadManifests has one agent for each way in which a manifest can be wrong: it is hidden, and
// gander agent list, gander doctor and gander run say why in one line, word for word, with the line
// of the file where there is one. The good one among them stays.
func TestBadManifests(t *testing.T) {
	base := t.TempDir()
	home, project := filepath.Join(base, "home"), filepath.Join(base, "project")
	agents := filepath.Join(home, "agents")
	manifest := func(lines ...string) func(string) error {
		return func(file string) error {
			return os.WriteFile(file, []byte("---\n"+strings.Join(lines, "\n")+"\n---\nBe brief.\n"), 0o600)
		}
	}
	file := func(text string) func(string) error {
		return func(file string) error { return os.WriteFile(file, []byte(text), 0o600) }
	}
	tests := []struct {
		agent string
		make  func(file string) error
		want  string // behind the path
	}{
		{"plain", file("You review.\n"), `:1: want front matter here, which begins with a line "---", as in "---", "provider: goose", "---"`},
		{"open", file("---\nprovider: goose\n"), `:1: the front matter has no end; want a line "---" after its last key`},
		{"words", manifest("provider: goose", "just words"), `:3: want a key and its value, as in "name: Reviewer", got "just words"`},
		{"twice", manifest("provider: goose", "name: a", "provider: opencode"), `:4: the key provider is there twice; the first is in line 2`},
		{"quote", manifest("provider: goose", `name: "a`), `:3: name: the quote is not closed`},
		{"control", manifest("provider: goose", "name: a\x1b[31m"), `:3: the line has the control character "\x1b" in it`},
		{"list", manifest("provider: [goose]"), `:2: provider: want one text, got a list`},
		{"choice", manifest("provider: goose", "access: all"), `:3: access: "all" is not one of read, write`},
		{"other", manifest("id: another", "provider: goose"), `:2: id: "another" is not the name of the folder, "other"; make them one`},
		{"nobody", manifest("name: N", "provider: nobody"), `:3: provider: there is none called "nobody"; known here: goose, opencode, and the endpoints of gander provider list`},
		{"missing", manifest("name: N"), `: provider: is missing; name who answers: goose, opencode`},
		{"preset", manifest("provider: codex"), `:2: provider: codex-acp is a program that is not an agent here; gander agent add codex-acp makes it one, or says why it cannot be`},
		{"refused", manifest("provider: copilot-proxy"), `:2: provider: copilot-proxy cannot be used: it lives on the sign-in of another program; use a key of the model's vendor: gander setup --provider openai`},
		{"nowhere", manifest("provider: goose", "endpoint: nowhere"), `:3: endpoint: there is no provider "nowhere"; gander provider list shows them, and providers.nowhere.baseUrl of config.json adds one`},
		{"both", manifest("provider: openai", "endpoint: openrouter"), `:3: endpoint: the provider openai is an endpoint already, by which the agent only talks; name a program as provider, or take endpoint out`},
		{"talker", manifest("provider: openai", "workspaceAccess: internal"), `:3: workspaceAccess: the provider openai is an endpoint, by which the agent only talks: it has no workspace; take workspaceAccess out`},
		{"moody", manifest("provider: openai", "mode: plan"), `:3: mode: the provider openai is an endpoint, by which the agent only talks: it has no modes; take mode out`},
		{"goose", manifest("provider: opencode"), `:2: provider: goose is the name of a program already, and runs no other one; choose another id`},
		{"orchestrator", manifest("provider: goose"), `: the name "orchestrator" is gander's own; choose another one`},
		{"auto", manifest("provider: goose"), `: the name "auto" is gander's own; choose another one`},
		{"com1", manifest("provider: goose"), `: "com1" is the name of a device on Windows, where no folder can be called so; choose another one`},
		{"Odd Name", manifest("provider: goose"), `: "Odd Name" cannot be an agent's name; want small letters, digits and dashes, beginning with a letter, at most 32 characters`},
		{"link", func(file string) error { return os.Symlink("../good/AGENTS.md", file) }, `: it is a link, which is not followed; put the file itself there`},
		{"folder", func(file string) error { return os.Symlink("good", filepath.Dir(file)) }, `: the folder is a link, which is not followed; put the folder itself there`},
		{"pipe", func(file string) error { return unix.Mkfifo(file, 0o600) }, `: it is not a regular file`},
		{"large", file(strings.Repeat("x", 256<<10+1)), `: it is larger than 256 KiB`},
		{"front", file("---\n" + strings.Repeat("# more\n", 10000) + "---\n"), `:9364: the front matter is larger than 64 KiB`},
		{"shared", func(file string) error { return errors.Join(manifest("provider: goose")(file), os.Chmod(file, 0o666)) }, `: anybody can write it; make it yours alone: chmod 600 ` + filepath.Join(agents, "shared", "AGENTS.md")},
	}
	err := errors.Join(os.MkdirAll(filepath.Join(agents, "good"), 0o700), os.Mkdir(project, 0o700), manifest("provider: goose", "modell: m")(filepath.Join(agents, "good", "AGENTS.md")))
	for _, tt := range tests {
		at := filepath.Join(agents, tt.agent)
		if tt.agent != "folder" {
			err = errors.Join(err, os.Mkdir(at, 0o700))
		}
		err = errors.Join(err, tt.make(filepath.Join(at, "AGENTS.md")))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	t.Chdir(project)
	environ := []string{"HOME=" + base, "GANDER_HOME=" + home, "PATH=/usr/bin:/bin", "DOCKER_HOST=unix:///nowhere"}
	run := func(args ...string) (stdout, stderr string) {
		var out, complaints bytes.Buffer
		runGander(t.Context(), args, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &complaints}, environ, &cli.Signals{End: func() {}, Exit: func(int) {}})
		return out.String(), complaints.String()
	}
	type row struct{ Name, Missing string }
	type check struct{ ID, State, What string }
	decode := func(text string, into any) {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	var listed []row
	list, _ := run("agent", "list", "--json")
	decode(list, &listed)
	var report struct{ Checks []check }
	doctor, _ := run("doctor", "--json", "--sandbox", "off")
	decode(doctor, &report)
	lines, _ := run("agent", "list")
	for _, tt := range tests {
		want := filepath.Join(agents, tt.agent, "AGENTS.md") + tt.want
		if !slices.Contains(listed, row{tt.agent, want}) {
			t.Errorf("%s: want %s; gander agent list has %+v", tt.agent, want, listed)
		}
		if !slices.Contains(report.Checks, check{"agents", "warn", want}) {
			t.Errorf("%s: want %s; gander doctor has %+v", tt.agent, want, report.Checks)
		}
		if !slices.ContainsFunc(strings.Split(lines, "\n"), func(l string) bool {
			return strings.HasPrefix(l, tt.agent+" ") && strings.HasSuffix(l, " not ready: "+want)
		}) {
			t.Errorf("%s: no line of gander agent list ends with %s\n%s", tt.agent, want, lines)
		}
		if tt.agent == "goose" || tt.agent == "orchestrator" || tt.agent == "auto" {
			continue // what has this name without a manifest answers
		}
		if _, said := run("run", "--agent", tt.agent, "hello"); !strings.HasPrefix(said, "gander: ") || !strings.HasSuffix(said, want+"\n") || strings.Count(said, "\n") > 1 {
			t.Errorf("%s: want %s; gander run says %s", tt.agent, want, said)
		}
	}
	if warning := filepath.Join(agents, "good", "AGENTS.md") + `: line 3: nobody reads the key "modell"; did you mean model?`; !strings.Contains(doctor, strings.ReplaceAll(warning, `"`, `\"`)) || len(listed) != len(tests)+4 {
		t.Errorf("gander agent list has %d rows, want those of goose, opencode, orchestrator and good besides %d; doctor says nothing of %s", len(listed), len(tests), warning)
	}
}

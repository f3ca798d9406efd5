package plugins_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/team/plugins"
)

const skill = "---\nname: tidy\ndescription: Tidies.\n---\nRun scripts/tidy.sh.\n"

// write makes a folder of files, by name.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made")
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// with adds files to those that all formats have.
func with(more map[string]string) map[string]string {
	all := map[string]string{
		"skills/tidy/SKILL.md":        skill,
		"skills/tidy/scripts/tidy.sh": "echo tidied\n",
		"commands/review.md":          "---\ndescription: Reviews a file.\nargument-hint: FILE\n---\nReview $ARGUMENTS now.\n",
		"agents/critic.md":            "---\nname: Code Critic\ndescription: Finds faults.\ntools: Read\n---\nBe strict.\n",
		".mcp.json":                   `{"mcpServers": {"notes": {"command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/server.js"], "env": {"DIR": "${CLAUDE_PLUGIN_ROOT}"}}}}`,
		"server.js":                   "//\n",
		"hooks/hooks.json":            `{"hooks": {}}`,
	}
	maps.Copy(all, more)
	return all
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		format, id string
		files      map[string]string
	}{
		{"openclaw", "notes", with(map[string]string{"openclaw.plugin.json": `{"id": "notes", "configSchema": {"type": "object"}, "skills": ["./skills"], "channels": ["x"], "requiresPlugins": ["base"]}`})},
		{"claude", "notes", with(map[string]string{".claude-plugin/plugin.json": `{"name": "notes", "version": "1.2.0", "hooks": "./hooks/hooks.json"}`})},
		{"codex", "notes", with(map[string]string{".codex-plugin/plugin.json": `{"name": "Notes", "skills": "./skills/", "interface": {"displayName": "Notes"}}`})},
		{"cursor", "notes", with(map[string]string{".cursor-plugin/plugin.json": `{"name": "notes", "rules": "rules"}`})},
		{"agent plugins", "notes", with(map[string]string{"plugin.json": `{"name": "notes", "commands": ["./commands/review.md"], "mcpServers": "./.mcp.json"}`})},
		{"claude, without a manifest", "made", with(nil)},
	} {
		store := plugins.Store{Dir: filepath.Join(t.TempDir(), "plugins")}
		p, err := store.Install(write(t, tt.files), "here", true)
		if err != nil {
			t.Errorf("%s: %v", tt.format, err)
			continue
		}
		if p.Format != tt.format || p.ID != tt.id || !p.Enabled {
			t.Errorf("read %+v, want %s of the format %s", p, tt.id, tt.format)
		}
		dir := filepath.Join(store.Dir, tt.id)
		if want := []string{filepath.Join(dir, "skills", "tidy")}; !slices.Equal(p.Skills, want) {
			t.Errorf("%s: skills %q", tt.format, p.Skills)
		}
		if len(p.Commands) != 1 || p.Commands[0].Name != "review" || p.Commands[0].Hint != "FILE" || p.Commands[0].Prompt("a.go") != "Review a.go now." {
			t.Errorf("%s: commands %+v", tt.format, p.Commands)
		}
		if len(p.Agents) != 1 || p.Agents[0].ID != "code-critic" || p.Agents[0].Instructions != "Be strict." {
			t.Errorf("%s: agents %+v", tt.format, p.Agents)
		}
		if len(p.Servers) != 1 || p.Servers[0].Args[0] != dir+"/server.js" || p.Servers[0].Env["DIR"] != dir {
			t.Errorf("%s: servers %+v", tt.format, p.Servers)
		}
		if !slices.ContainsFunc(p.Refused, func(r plugins.Refusal) bool {
			return strings.HasPrefix(r.Part, "hooks") && strings.Contains(r.Reason, "runs nothing")
		}) {
			t.Errorf("%s: its hooks are not refused: %+v", tt.format, p.Refused)
		}
	}
}

func TestRefused(t *testing.T) {
	p, err := plugins.Read(write(t, map[string]string{
		"openclaw.plugin.json": `{"id": "all", "configSchema": {}, "skills": ["../out", "/etc", "own"], "channels": [], "providers": ["p"], "cliBackends": [], "unheard": 1, "commands": 7,
		  "mcpServers": {"far": {"url": "https://example.com/mcp"}, "key": {"command": "x", "env": {"K": "${API_KEY}"}}, "odd name": {"command": "x"}, "none": {}, "near": {"command": "./bin/server"}, "bad": 3}}`,
		"package.json":            `{"scripts": {"postinstall": "touch /tmp/owned"}, "dependencies": {"left-pad": "1"}, "openclaw": {"extensions": ["./index.js"]}}`,
		"own/bad/SKILL.md":        "no front matter",
		"commands/big.md":         strings.Repeat("x", 65<<10),
		"commands/odd name.md":    "x",
		"commands/sub/inner.md":   "y",
		"agents/not-markdown.txt": "x",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for part, reason := range map[string]string{
		"skills ../out": "leads out", "skills /etc": "leads out", "skill own/bad": "front matter", "channels": "gander has no channels", "providers": "yours to configure",
		"cliBackends": "yours to configure", "unheard": "no use for it", "commands": "neither a path", "mcpServers far": "has an address", "mcpServers key": "your variable API_KEY",
		"mcpServers odd name": "its name", "mcpServers none": "no program", "mcpServers bad": "cannot be read", "package.json scripts": "postinstall: nobody runs them",
		"package.json dependencies": "1 packages", "package.json openclaw.extensions": "never runs", "command commands/big.md": "larger than 64 KiB", "command commands/odd name.md": "its name",
	} {
		if !slices.ContainsFunc(p.Refused, func(r plugins.Refusal) bool { return r.Part == part && strings.Contains(r.Reason, reason) }) {
			t.Errorf("%s is not refused with %q", part, reason)
		}
	}
	if len(p.Commands) != 1 || p.Commands[0].Prompt("more") != "y\n\nmore" || len(p.Servers) != 1 || p.Servers[0].Command != filepath.Join(p.Dir, "bin", "server") {
		t.Errorf("%+v, %+v", p.Commands, p.Servers)
	}
	if t.Failed() {
		t.Logf("%+v", p.Refused)
	}
}

// Hostile plugins are refused, and nothing of them is left.
func TestInstallRefuses(t *testing.T) {
	many := map[string]string{"plugin.json": `{"name": "many"}`}
	for i := range 10000 {
		many[fmt.Sprintf("f/%d", i)] = ""
	}
	linked := write(t, map[string]string{"plugin.json": `{"name": "linked"}`})
	if err := os.Symlink("/etc", filepath.Join(linked, "skills")); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	for name, from := range map[string]string{
		"too many files":         write(t, many),
		"too much":               write(t, map[string]string{"plugin.json": `{"name": "big"}`, "data": strings.Repeat("x", 33<<20)}),
		"a link":                 linked,
		"a name that leads out":  archive(t, "../../out", tar.TypeReg),
		"an absolute name":       archive(t, "/tmp/out", tar.TypeReg),
		"a link in an archive":   archive(t, "skills", tar.TypeSymlink),
		"no plugin":              write(t, map[string]string{"README.md": ""}),
		"a manifest that is big": write(t, map[string]string{"plugin.json": `{"name": "` + strings.Repeat("x", 300<<10) + `"}`}),
		"no JSON":                write(t, map[string]string{"plugin.json": `{"name": `}),
		"no object":              write(t, map[string]string{"plugin.json": `null`}),
		"a name that is no text": write(t, map[string]string{"plugin.json": `{"name": ["x"]}`}),
		"an id that leads out":   write(t, map[string]string{"openclaw.plugin.json": `{"id": "../../x"}`}),
		"no id":                  write(t, map[string]string{"openclaw.plugin.json": `{"configSchema": {}}`}),
		"nothing":                filepath.Join(t.TempDir(), "nothing"),
	} {
		if name == "a link" && runtime.GOOS == "windows" {
			continue
		}
		store := plugins.Store{Dir: filepath.Join(t.TempDir(), "plugins")}
		if p, err := store.Install(from, "here", true); err == nil {
			t.Errorf("%s: installed %+v", name, p)
		}
		if left, err := os.ReadDir(store.Dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind %v, %v", name, left, err)
		}
	}
}

// archive packs a plugin and one entry more.
func archive(t *testing.T, name string, kind byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "packed.tgz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	manifest := `{"name": "packed"}`
	err = w.WriteHeader(&tar.Header{Name: "package/plugin.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(manifest))})
	if err == nil {
		_, err = w.Write([]byte(manifest))
	}
	if name != "" {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Linkname: "/etc"}))
	}
	if err := errors.Join(err, w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestStore(t *testing.T) {
	store := plugins.Store{Dir: filepath.Join(t.TempDir(), "plugins")}
	if all, problems := store.List(); len(all)+len(problems) > 0 {
		t.Errorf("without a folder there are %v, %v", all, problems)
	}
	if p, err := store.Install(archive(t, "", 0), "npm:packed@1.0.0", false); err != nil || p.ID != "packed" || p.Enabled {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := store.Install(archive(t, "", 0), "x", true); err == nil || !strings.Contains(err.Error(), "there is a plugin packed already") {
		t.Errorf("a second time: %v", err)
	}
	if state, ok := store.State("packed"); !ok || state.Source != "npm:packed@1.0.0" {
		t.Errorf("its state is %+v", state)
	}
	if n := len(store.Enabled()); n != 0 {
		t.Errorf("%d are enabled", n)
	}
	if err := store.Enable("packed", true); err != nil || len(store.Enabled()) != 1 {
		t.Errorf("enabled: %v", err)
	}
	if changed, err := store.Changed("packed"); changed || err != nil {
		t.Errorf("changed at once: %v", err)
	}
	if err := os.WriteFile(filepath.Join(store.Dir, "packed", "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, _ := store.Changed("packed"); !changed {
		t.Error("a further file is no change")
	}
	for _, id := range []string{"../packed", "other", "", "."} {
		if err := store.Enable(id, true); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("enabling %q: %v", id, err)
		}
		if err := store.Remove(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("removing %q: %v", id, err)
		}
	}
	if err := store.Remove("packed"); err != nil {
		t.Error(err)
	}
	if _, ok := store.State("packed"); ok {
		t.Error("its state is kept")
	}
	if err := os.WriteFile(filepath.Join(store.Dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, problems := store.List(); len(problems) != 1 {
		t.Errorf("a broken state is told as %v", problems)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("plugin.json", []byte(`{"name": "x", "skills": ["."], "mcpServers": {"a": {"command": "b"}}}`), []byte("---\ndescription: d\n---\n$ARGUMENTS"))
	f.Add("openclaw.plugin.json", []byte(`{"id": "x", "skills": "..", "commands": {}}`), []byte("---\na: &a [*a]\n---\n"))
	f.Add(".claude-plugin/plugin.json", []byte(`[]`), []byte("\ufeff---\r\n"))
	f.Fuzz(func(t *testing.T, name string, manifest, text []byte) {
		if !slices.Contains([]string{"plugin.json", "openclaw.plugin.json", ".claude-plugin/plugin.json", ".mcp.json", "package.json"}, name) {
			name = "plugin.json"
		}
		dir := write(t, map[string]string{name: string(manifest), "commands/c.md": string(text), "agents/a.md": string(text), "skills/s/SKILL.md": string(text)})
		p, err := plugins.Read(dir)
		if err != nil {
			return
		}
		for _, at := range p.Skills {
			if rel, err := filepath.Rel(dir, at); err != nil || !filepath.IsLocal(rel) {
				t.Errorf("a skill at %q", at)
			}
		}
		if strings.ContainsAny(p.Name+p.Description+p.Version, "\n\x1b") {
			t.Errorf("read %+v", p)
		}
	})
}

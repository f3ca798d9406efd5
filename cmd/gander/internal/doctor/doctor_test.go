package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
)

func TestWrap(t *testing.T) {
	if got, want := wrap("one two  three\nfour fünf", 9, 2), "one two\n  three\n  four fünf"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := wrap("averylongword that", 4, 0); got != "averylongword\nthat" {
		t.Errorf("%q", got)
	}
}

// Skills and plugins that have changed since they were installed are named.
func TestChangedSkills(t *testing.T) {
	home, made := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(made, "skills", "tidy"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(made, "skills", "tidy", "SKILL.md")
	if err := os.WriteFile(file, []byte("---\nname: tidy\ndescription: Tidies.\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	a := &cli.App{Config: cfg}
	for _, agent := range []string{"", "goose"} {
		if _, err := cfg.SkillStore(agent).Install(file, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cfg.PluginStore().Install(made, "here", true); err != nil {
		t.Fatal(err)
	}
	if c := examineSkills(a); c.State != CheckOK {
		t.Fatalf("as they were installed: %+v", c)
	}
	places := []string{cfg.SkillStore("").Dir + "/tidy", cfg.SkillStore("goose").Dir + "/tidy", filepath.Join(cfg.PluginStore().Dir, strings.ToLower(filepath.Base(made)))}
	for _, dir := range places {
		if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := examineSkills(a)
	for _, dir := range places {
		if !strings.Contains(c.What, filepath.FromSlash(dir)+" has changed") {
			t.Errorf("nobody says that %s has changed: %+v", dir, c)
		}
	}
	if c.State != checkWarn {
		t.Errorf("the state is %s", c.State)
	}
}

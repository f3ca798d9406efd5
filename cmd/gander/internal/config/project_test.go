package config_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/config"
)

// TestForProjectKeepsTheLastGoodFile: a session that opens while the user's file
// is broken goes on with what it said before.
func TestForProjectKeepsTheLastGoodFile(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	user := filepath.Join(home, config.UserFile)
	writeFile(t, user, `{"agent": "opencode"}`)
	writeFile(t, filepath.Join(project, config.ProjectFile), `{"model": {"model": "small"}}`)
	c, err := config.Load(config.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, user, `{"agent": `)
	p, err := c.ForProject(project)
	if err != nil || p.Agent != "opencode" || p.Model.Model != "small" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestProjectFileIsNoLink: a repository cannot have another file read as its own.
func TestProjectFileIsNoLink(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	writeFile(t, secret, `{"agent": "opencode"}`)
	if err := os.Symlink(secret, filepath.Join(project, config.ProjectFile)); err != nil {
		t.Fatal(err)
	}
	if c, err := config.Load(config.Options{Home: home, ProjectDir: project}); err == nil {
		t.Errorf("the link was followed: %+v", c)
	}
}

// TestProjectFileIsHostile: what a repository writes into its file does nothing to the
// terminal that it is complained about on.
func TestProjectFileIsHostile(t *testing.T) {
	for _, text := range []string{
		`{"a\u001b[2J": 1}`, `{"a\u202e\u0007\n": 1}`, `{"agents": {"go\u001b[2Jose": {"command": ["\u001b[2J"]}}}`, `{"agent": "\u009b2J"}`,
		`{"policy": {"network": {"allow": ["a\u001b[2J:443", "a:\u001b[2J"], "presets": ["\u001b[2J"]}, "limits": {"time": "\u001b[2J"}}}`,
		`{"model": {"headers": {"\u001b[2J": "\u001b[2J"}}, "agents": {"goose": {"env": {"\u001b[2J": "x"}}}}`, "{\"a\x1b\": 1}", "{\x1b}",
	} {
		project := t.TempDir()
		writeFile(t, filepath.Join(project, config.ProjectFile), text)
		_, err := config.Load(config.Options{Home: t.TempDir(), ProjectDir: project})
		if err == nil {
			t.Errorf("%s is taken", text)
			continue
		}
		if i := strings.IndexFunc(err.Error(), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }); i >= 0 {
			t.Errorf("%s: the terminal gets %q", text, err.Error())
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

package config_test

import (
	"os"
	"path/filepath"
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

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

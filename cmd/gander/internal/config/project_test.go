package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestProjectFileKeepsNobodyWaiting: a repository's file is read each time that a session
// opens, and whatever fills it costs no minutes, and no megabytes of errors.
func TestProjectFileKeepsNobodyWaiting(t *testing.T) {
	for name, tt := range map[string]struct{ before, item, after string }{
		"unknown keys": {`{`, `"%x": 0`, `}`},
		"prices":       {`{"policy": {"model": {"prices": {`, `"%x": {}`, `}}}}`},
		"hosts":        {`{"policy": {"network": {"allow": [`, `"a%x"`, `]}}}`},
		"protected":    {`{"policy": {"writes": {"protect": [`, `"a%x"`, `]}}}`},
		"variables":    {`{"agents": {"goose": {"env": {`, `"a%x": ""`, `}}}}`},
	} {
		for _, size := range []int{60 << 10, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d KiB", name, size>>10), func(t *testing.T) {
				text := []byte(tt.before)
				for i := 0; len(text) < size-30; i++ {
					if i > 0 {
						text = append(text, ',')
					}
					text = fmt.Appendf(text, tt.item, i)
				}
				project := t.TempDir()
				writeFile(t, filepath.Join(project, config.ProjectFile), string(text)+tt.after)
				done := make(chan error, 1)
				go func() {
					_, err := config.Load(config.Options{Home: t.TempDir(), ProjectDir: project})
					done <- err
				}()
				select {
				case err := <-done:
					if err != nil && len(err.Error()) > 10<<10 {
						t.Errorf("the error has %d bytes", len(err.Error()))
					}
				case <-time.After(time.Minute):
					t.Error("the file is still being read")
				}
			})
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte(" file-key-0123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, []byte("open-key"), 0o644); err != nil {
		t.Fatal(err)
	}
	two := filepath.Join(dir, "two")
	if err := os.WriteFile(two, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inFile := func(path string) string { return `{"model": {"apiKeyFile": ` + quoted(path) + `}}` }
	tests := []struct {
		name, file string
		environ    []string
		want       Key
		wrong      string
	}{
		{"none", "", nil, Key{}, ""},
		{"environment first", inFile(file), []string{"LLM_API_KEY=env-key"}, Key{"env-key", "LLM_API_KEY"}, ""},
		{"a variable", `{"model": {"apiKeyEnv": "MY_AI"}}`, []string{"MY_AI=mine"}, Key{"mine", "MY_AI"}, ""},
		{"a variable that is not set", `{"model": {"apiKeyEnv": "MY_AI"}}`, nil, Key{"", "MY_AI"}, "MY_AI, which should hold the model's key, is not set"},
		{"a file", inFile(file), nil, Key{"file-key-0123", file}, ""},
		{"no file", inFile(file + "x"), nil, Key{"", file + "x"}, "there is no file"},
		{"somebody else's eyes", inFile(open), nil, Key{"", open}, "chmod 600"},
		{"two lines", inFile(two), nil, Key{"", two}, "one key on one line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.Contains(tt.wrong, "chmod") {
				t.Skip("no such modes there")
			}
			c := mustLoad(t, tt.file, "", tt.environ...)
			got, err := c.Key()
			if got != tt.want || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("Key = %q from %q, %v; want %q from %q, error %q", got.Value.Reveal(), got.Source, err, tt.want.Value.Reveal(), tt.want.Source, tt.wrong)
			}
		})
	}
}

func quoted(path string) string { return `"` + strings.ReplaceAll(path, `\`, `\\`) + `"` }

func TestTheKeyIsASecretWhereverItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("from-file-0123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := mustLoad(t, `{"model": {"apiKeyFile": `+quoted(file)+`}}`, "").Secrets(); !slices.Contains(got, "from-file-0123") {
		t.Errorf("secrets: %q", got)
	}
	if got := mustLoad(t, `{"model": {"apiKeyEnv": "PLAIN"}}`, "", "PLAIN=from-variable").Secrets(); !slices.Contains(got, "from-variable") {
		t.Errorf("secrets: %q", got)
	}
}

func TestTheKeyHasOnePlace(t *testing.T) {
	for text, want := range map[string]string{
		`{"model": {"apiKey": "k", "apiKeyEnv": "A"}}`:      "model.apiKey: the key has one place",
		`{"model": {"apiKeyFile": "/k", "apiKeyEnv": "A"}}`: "model.apiKeyFile: the key has one place",
		`{"model": {"apiKeyEnv": "sk-not a name"}}`:         "model.apiKeyEnv: is not the name of a variable",
		`{"model": {"apiKeyFile": "key"}}`:                  `model.apiKeyFile: "key" is not an absolute path`,
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, UserFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Options{Home: home})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-not") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// No key enters a sandbox, not by way of a directory that sandboxes see either.
func TestTheKeyIsNotShownToSandboxes(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "deep", "key")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("the-key"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(more string) (*Config, error) {
		text := `{"model": {"apiKeyFile": ` + quoted(file) + `}` + more + `}`
		if err := os.WriteFile(filepath.Join(home, UserFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{Home: home})
	}
	c, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ForProject(t.TempDir()); err != nil {
		t.Errorf("a project beside it: %v", err)
	}
	if _, err := c.ForProject(dir); err == nil || !strings.Contains(err.Error(), "which sandboxes see") {
		t.Errorf("a project around it: %v", err)
	}
	for _, more := range []string{`, "sandbox": {"readOnlyPaths": [` + quoted(dir) + `]}`, `, "agents": {"goose": {"readOnlyPaths": [` + quoted(file) + `]}}`} {
		if _, err := load(more); err == nil || !strings.Contains(err.Error(), "which sandboxes see") {
			t.Errorf("%s: %v", more, err)
		}
	}
}

// A new key is noticed as a new configuration is.
func TestWatchSeesTheKeyFile(t *testing.T) {
	home, file := t.TempDir(), filepath.Join(t.TempDir(), "key")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "old-key")
	write(filepath.Join(home, UserFile), `{"model": {"apiKeyFile": `+quoted(file)+`}}`)
	c, err := Load(Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	if c.fingerprint() != c.seen {
		t.Error("nothing has changed, and yet it would be read again")
	}
	keys := make(chan string, 10)
	go func() {
		_ = c.Watch(t.Context(), func(c *Config, _ error) { k, _ := c.Key(); keys <- k.Value.Reveal() })
	}()
	deadline := time.After(time.Minute)
	write(file, "new-key")
	for {
		select {
		case k := <-keys:
			if k == "new-key" {
				return
			}
		case <-deadline:
			t.Fatal("the new key was not noticed")
		}
	}
}

// Nor do gander's own files, in which there may be keys and headers, whoever opens the directory.
func TestOwnFilesAreNotShownToSandboxes(t *testing.T) {
	base := t.TempDir()
	home, project := filepath.Join(base, ".gander"), filepath.Join(base, "project")
	for _, dir := range []string{filepath.Join(home, "sub"), project, filepath.Join(base, "beside")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(base, link); err != nil {
		t.Skip(err)
	}
	load := func(section, path string) error {
		text := `{"model": {"apiKey": "k"}, ` + fmt.Sprintf(section, quoted(path)) + `}`
		if err := os.WriteFile(filepath.Join(home, UserFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Options{Home: home})
		return err
	}
	for _, section := range []string{`"policy": {"readOnlyPaths": [%s]}`, `"sandbox": {"readOnlyPaths": [%s]}`, `"agents": {"goose": {"readOnlyPaths": [%s]}}`} {
		for _, path := range []string{base, home, filepath.Join(home, "sub"), link, "/"} {
			if err := load(section, path); err == nil || !strings.Contains(err.Error(), "gander's own files") {
				t.Errorf("%s of %s: %v", section, path, err)
			}
		}
		if err := load(section, filepath.Join(base, "beside")); err != nil {
			t.Errorf("%s beside it: %v", section, err)
		}
	}
	file := []byte(`{"policy": {"readOnlyPaths": [` + quoted(base) + `]}}`)
	if err := os.WriteFile(filepath.Join(project, ProjectFile), file, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Home: home, ProjectDir: project})
	if err != nil {
		t.Fatalf("with a project that asks for it: %v", err)
	}
	if err := c.Trust(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reload(); err == nil || !strings.Contains(err.Error(), "gander's own files") {
		t.Errorf("with a trusted project that asks for it: %v", err)
	}
}

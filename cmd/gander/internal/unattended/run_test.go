package unattended

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// sandbox/.env.example names every variable of unattended runs, and none that nobody reads.
func TestEnvExample(t *testing.T) {
	data, err := os.ReadFile("../../../../sandbox/.env.example")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for line := range strings.Lines(string(data)) {
		if name, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			named = append(named, name)
		}
	}
	for _, want := range []string{
		"LLM_API_KEY", "LLM_HOST", "GOOSE_LLM_HOST", "GOOSE_MODEL", "OPENCODE_LLM_HOST", "OPENCODE_MODEL", "CP_LLM_BASE_URL", "CP_LLM_API_KEY", "CP_LLM_MODEL",
		paceVariable, planeURLVariable, planeTokenVariable, planeRunVariable,
	} {
		if !slices.Contains(named, want) {
			t.Errorf("%s is not in .env.example", want)
		}
	}
	source := sources(t)
	for _, name := range named {
		general := name
		for _, agent := range []string{"GOOSE_", "OPENCODE_"} { // their names are put together
			general = strings.Replace(general, agent, "_", 1)
		}
		parts := []string{`"` + name + `"`, `"` + general + `"`, `"` + strings.TrimPrefix(general, "GANDER_") + `"`, `"` + strings.TrimPrefix(general, "GANDER") + `"`}
		if !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(source, p) }) {
			t.Errorf("nobody reads %s", name)
		}
	}
}

// sources is the text of gander's own commands and configuration.
func sources(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"*", ".."} { // the packages beside this one, and main
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	return b.String()
}

// A loop without a keeper says that its agent has no sandbox, unless it is in a container.
func TestWarnNoSandbox(t *testing.T) {
	for _, tt := range []struct {
		name, mark string
		says       bool
	}{
		{name: "no container", says: true},
		{name: "Docker", mark: ".dockerenv"},
		{name: "Podman", mark: "run/.containerenv"},
		{name: "an image of gander's", mark: "state/BOOTSTRAP.md"},
		{name: "a sandbox of gander's", mark: "run/gander/bin/gander"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if tt.mark != "" {
				path := filepath.Join(root, tt.mark)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			var said strings.Builder
			warnNoSandbox((&cli.App{Stdio: cli.Stdio{Err: &said}}), root)
			want := ""
			if tt.says {
				want = "gander: no sandbox: the agent sees all your files, the network and the key; gander loop start makes one\n"
			}
			if said.String() != want {
				t.Errorf("it says %q, want %q", said.String(), want)
			}
		})
	}
}

func TestPace(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 2 * time.Second, "0.5": 500 * time.Millisecond, "3s": 3 * time.Second, "0": time.Millisecond} {
		if got, err := paceOf(value); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", value, got, err, want)
		}
	}
	for _, value := range []string{"soon", "-1", "NaN", "1e9"} {
		if got, err := paceOf(value); err == nil {
			t.Errorf("%q is %v", value, got)
		}
	}
}

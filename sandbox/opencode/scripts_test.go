//go:build unix

package opencode

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// script runs a script of ours in dir, with the given programs alone in PATH.
func script(t *testing.T, dir, stdin, text string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", text, "script"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestPrepare(t *testing.T) {
	home, project, install := t.TempDir(), t.TempDir(), t.TempDir()
	program := write(t, filepath.Join(install, "bin/opencode"), "")
	write(t, filepath.Join(home, ".tmp/.0123-00000000.so"), "left by another start")
	write(t, filepath.Join(project, "AGENTS.md"), "")
	write(t, filepath.Join(project, "CLAUDE.md"), "")
	write(t, filepath.Join(project, ".opencode/plugin.ts"), "")
	out, err := script(t, project, "", prepareScript, home, program, "1.2.3")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := parseInside(out)
	if found.instructions != filepath.Join(project, "AGENTS.md") || found.ignored != ".opencode" || found.bash == "" {
		t.Errorf("found %+v in %s", found, out)
	}
	if left, err := os.ReadDir(filepath.Join(home, ".tmp")); err != nil || len(left) != 0 {
		t.Errorf("in TMPDIR: %v, %v", left, err)
	}
	if info, err := os.Stat(filepath.Join(home, ".config/opencode/node_modules")); err != nil || !info.IsDir() {
		t.Errorf("node_modules: %v", err)
	}
	needs := map[string]any{"@opencode-ai/plugin": "1.2.3"}
	for file, want := range map[string]any{
		"package.json":      map[string]any{"dependencies": needs},
		"package-lock.json": map[string]any{"packages": map[string]any{"": map[string]any{"dependencies": needs}}},
	} {
		var got any
		if err := json.Unmarshal([]byte(content(t, filepath.Join(home, ".config/opencode", file))), &got); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// The package beside a program says which version it is.
func TestPrepareKnowsTheVersion(t *testing.T) {
	home, install := t.TempDir(), t.TempDir()
	write(t, filepath.Join(install, "package.json"), "{\n \"name\": \"opencode-linux-x64\",\n \"version\": \"9.8.7-beta.1\",\n \"os\": []\n}")
	program := write(t, filepath.Join(install, "bin/opencode"), "")
	link := filepath.Join(t.TempDir(), "opencode")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	if out, err := script(t, t.TempDir(), "", prepareScript, home, link, "1.2.3"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := content(t, filepath.Join(home, ".config/opencode/package.json")); !strings.Contains(got, `"9.8.7-beta.1"`) {
		t.Errorf("seeded %s", got)
	}
}

func TestPrepareWithoutAnything(t *testing.T) {
	out, err := script(t, t.TempDir(), "", prepareScript, t.TempDir(), "/nonexistent/opencode", "1.2.3")
	if found := parseInside(out); err != nil || found.instructions != "" || found.ignored != "" {
		t.Errorf("found %+v: %v", found, err)
	}
}

func TestWriteScript(t *testing.T) {
	tests := []struct {
		name, file, before string // file is below the project
		found              string // there before; "-" is no file
		want               string // there after
		refused            bool
	}{
		{"over what was seen", "a.txt", digest("old"), "old", "new", false},
		{"over an empty file", "a.txt", digest(""), "", "new", false},
		{"a new file", "a.txt", digest(""), "-", "new", false},
		{"in a new directory", "x/y/a.txt", digest(""), "-", "new", false},
		{"not over what was changed", "a.txt", digest("old"), "changed", "changed", false},
		{"not over what came meanwhile", "a.txt", digest(""), "other", "other", false},
		{"over anything", "a.txt", "", "changed", "new", false},
		{"through a directory that is a link", "link/a.txt", "", "-", "-", true},
		{"through a link to a new directory", "link/x/y/a.txt", "", "-", "-", true},
		{"up and away", "../a.txt", "", "-", "-", true},
		{"a dash", "-rf", "", "-", "new", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			outside, project := t.TempDir(), filepath.Join(t.TempDir(), "project")
			if err := os.Mkdir(project, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(project, "link")); err != nil {
				t.Fatal(err)
			}
			file := project + "/" + tt.file
			if tt.found != "-" {
				write(t, file, tt.found)
			}
			out, err := script(t, project, "new", writeScript, project, file, tt.before)
			if (err != nil) != tt.refused || tt.refused && !strings.Contains(out, "is not in the project") {
				t.Errorf("%v: %s", err, out)
			}
			got, err := os.ReadFile(file)
			if (err != nil) != (tt.want == "-") || err == nil && string(got) != tt.want {
				t.Errorf("the file has %q, %v; want %q", got, err, tt.want)
			}
			if left, _ := os.ReadDir(outside); len(left) != 0 {
				t.Errorf("outside there is %v", left)
			}
		})
	}
}

// A file that is a link is not written through.
func TestWriteScriptLinks(t *testing.T) {
	project := t.TempDir()
	outside := write(t, filepath.Join(t.TempDir(), "a.txt"), "old")
	if err := os.Symlink(outside, filepath.Join(project, "a.txt")); err != nil {
		t.Fatal(err)
	}
	if out, err := script(t, project, "new", writeScript, project, project+"/a.txt", ""); err == nil {
		t.Errorf("not refused: %s", out)
	}
	if got := content(t, outside); got != "old" {
		t.Errorf("the file outside has %q", got)
	}
}

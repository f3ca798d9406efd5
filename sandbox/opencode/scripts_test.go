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

// prepared is what is found, by the script and by gander itself, with a home each.
func prepared(t *testing.T, project, program string, look func(t *testing.T, home string, found inside)) {
	t.Helper()
	t.Run("script", func(t *testing.T) {
		home := left(t)
		out, err := script(t, project, "", prepareScript, home, program, version)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found := parseInside(out)
		if found.bash == "" {
			t.Errorf("no bash in %s", out)
		}
		look(t, home, found)
	})
	t.Run("here", func(t *testing.T) {
		home := left(t)
		found, err := prepareHere(home, project, program)
		if err != nil {
			t.Fatal(err)
		}
		look(t, home, found)
	})
}

// left is a home that another start has left.
func left(t *testing.T) string {
	home := t.TempDir()
	write(t, filepath.Join(home, ".tmp/.0123-00000000.so"), "left by another start")
	return home
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
	project, install := t.TempDir(), t.TempDir()
	program := write(t, filepath.Join(install, "bin/opencode"), "")
	write(t, filepath.Join(project, "AGENTS.md"), "")
	write(t, filepath.Join(project, "CLAUDE.md"), "")
	write(t, filepath.Join(project, ".opencode/plugin.ts"), "")
	prepared(t, project, program, func(t *testing.T, home string, found inside) {
		if found.instructions != filepath.Join(project, "AGENTS.md") || found.ignored != ".opencode" {
			t.Errorf("found %+v", found)
		}
		if left, err := os.ReadDir(filepath.Join(home, ".tmp")); err != nil || len(left) != 0 {
			t.Errorf("in TMPDIR: %v, %v", left, err)
		}
		if info, err := os.Stat(filepath.Join(home, ".config/opencode/node_modules")); err != nil || !info.IsDir() {
			t.Errorf("node_modules: %v", err)
		}
		needs := map[string]any{"@opencode-ai/plugin": version}
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
	})
}

// The package beside a program says which version it is.
func TestPrepareKnowsTheVersion(t *testing.T) {
	install := t.TempDir()
	write(t, filepath.Join(install, "package.json"), "{\n \"name\": \"opencode-linux-x64\",\n \"version\": \"9.8.7-beta.1\",\n \"os\": []\n}")
	program := write(t, filepath.Join(install, "bin/opencode"), "")
	link := filepath.Join(t.TempDir(), "opencode")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	prepared(t, t.TempDir(), link, func(t *testing.T, home string, _ inside) {
		if got := content(t, filepath.Join(home, ".config/opencode/package.json")); !strings.Contains(got, `"9.8.7-beta.1"`) {
			t.Errorf("seeded %s", got)
		}
	})
}

func TestPrepareWithoutAnything(t *testing.T) {
	prepared(t, t.TempDir(), "/nonexistent/opencode", func(t *testing.T, _ string, found inside) {
		if found.instructions != "" || found.ignored != "" {
			t.Errorf("found %+v", found)
		}
	})
}

// writing are the ways in which a file is written.
var writing = map[string]func(t *testing.T, project, file, before string) error{
	"script": func(t *testing.T, project, file, before string) error {
		out, err := script(t, project, "new", writeScript, project, file, before)
		if err != nil && !strings.Contains(out, "is not in the project") {
			t.Errorf("refused without a word of the project: %v: %s", err, out)
		}
		return err
	},
	"here": func(_ *testing.T, project, file, before string) error { return writeHere(project, file, before, "new") },
}

func TestWrite(t *testing.T) {
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
	for way, put := range writing {
		for _, tt := range tests {
			t.Run(tt.name+" "+way, func(t *testing.T) {
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
				if err := put(t, project, file, tt.before); (err != nil) != tt.refused {
					t.Error(err)
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
}

// A file that is a link is not written through.
func TestWriteLinks(t *testing.T) {
	for way, put := range writing {
		t.Run(way, func(t *testing.T) {
			project := t.TempDir()
			outside := write(t, filepath.Join(t.TempDir(), "a.txt"), "old")
			if err := os.Symlink(outside, filepath.Join(project, "a.txt")); err != nil {
				t.Fatal(err)
			}
			if err := put(t, project, project+"/a.txt", ""); err == nil {
				t.Error("not refused")
			}
			if got := content(t, outside); got != "old" {
				t.Errorf("the file outside has %q", got)
			}
		})
	}
}

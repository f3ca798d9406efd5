//go:build unix

package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func program(t *testing.T, path string) string {
	t.Helper()
	write(t, path, "#!/bin/sh\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindAgent(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home [1]*")
	onPath := program(t, filepath.Join(dir, "path/goose"))
	other := program(t, filepath.Join(dir, "my goose"))
	write(t, filepath.Join(dir, "first/goose"), "not executable")
	foreign := "@aaif/goose-binary-aaa-x64"
	program(t, filepath.Join(home, "agents/goose/node_modules", foreign, "bin/goose"))
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	installed := program(t, filepath.Join(home, "agents/goose/node_modules/@aaif/goose-binary-"+runtime.GOOS+"-"+arch+"/bin/goose"))
	path := "PATH=" + strings.Join([]string{".", filepath.Join(dir, "first"), filepath.Join(dir, "path")}, ":")
	tests := []struct {
		name, file string
		environ    []string
		want       []string
	}{
		{"installed", "", nil, []string{installed}},
		{"path before installed", "", []string{path}, []string{onPath}},
		{"file before path", `{"agents": {"goose": {"command": ["` + other + `", "x"]}}}`, []string{path}, []string{other, "x"}},
		{"variable before file", `{"agents": {"goose": {"command": ["goose"]}}}`, []string{path, "GANDER_GOOSE_CMD='" + other + `' --a "b c"`}, []string{other, "--a", "b c"}},
		{"name in a variable", "", []string{path, "GANDER_GOOSE_CMD=goose -x"}, []string{onPath, "-x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(home, UserFile)); err != nil {
				t.Fatal(err)
			}
			if tt.file != "" {
				write(t, filepath.Join(home, UserFile), tt.file)
			}
			c, err := Load(Options{Home: home, Environ: tt.environ})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.FindAgent("goose")
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("FindAgent: %v %s", err, diff)
			}
		})
	}
}

func TestFindAgentErrors(t *testing.T) {
	_, err := mustLoad(t, "", "").FindAgent("goose")
	if !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), `install it with "gander agent install goose"`) {
		t.Errorf("not installed: %v", err)
	}
	for value, want := range map[string]string{
		"'/x":           "GANDER_GOOSE_CMD: a quote or an escape is not closed",
		"''":            "there is no program in it",
		"nope":          `GANDER_GOOSE_CMD: there is no program "nope" on PATH`,
		"/nonexistent/": "GANDER_GOOSE_CMD: /nonexistent is not an executable file",
	} {
		if _, err := mustLoad(t, "", "", "GANDER_GOOSE_CMD="+value).FindAgent("goose"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}

// gander may be installed as a program named goose.
func TestFindAgentSkipsItself(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "goose")); err != nil {
		t.Fatal(err)
	}
	if got, err := mustLoad(t, "", "", "PATH="+dir).FindAgent("goose"); err == nil {
		t.Errorf("FindAgent = %v, which is this program", got)
	}
}

func TestSplitWords(t *testing.T) {
	for in, want := range map[string][]string{
		`a`:                        {"a"},
		"  a \t b\nc ":             {"a", "b", "c"},
		`a 'b "c" \d' "e 'f' \"g"`: {"a", `b "c" \d`, `e 'f' "g`},
		`a\ b c\\d "\n" ""`:        {"a b", `c\d`, `\n`, ""},
		`pre'mid'"end"`:            {"premidend"},
		`a $HOME`:                  {"a", "$HOME"},
	} {
		got, err := splitWords(in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", in, err, diff)
		}
	}
	for _, bad := range []string{"", " ", `"a`, `'a`, `a\`, `"" x`} {
		if got, err := splitWords(bad); err == nil {
			t.Errorf("%q gave %q", bad, got)
		}
	}
}

package developer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRootsOfCalls(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(rel string) string { return filepath.Join(top, filepath.FromSlash(rel)) }
	for _, dir := range []string{"home/.git", "home/loose/sub", "home/tree/.git", "home/tree/sub/deep", "linked/sub", "temp", "given"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("linked/.git"), []byte("gitdir: elsewhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	root := filepath.VolumeName(top) + string(filepath.Separator)
	for _, tt := range []struct {
		name, server, call, temp string
		given, want              []string
	}{
		{"a work tree", at("given"), at("home/tree/sub/deep"), at("temp"), nil, []string{at("home/tree"), at("temp")}},
		{"a linked work tree", at("given"), at("linked/sub"), at("temp"), nil, []string{at("linked"), at("temp")}},
		{"no work tree but the home", at("given"), at("home/loose/sub"), at("temp"), nil, []string{at("home/loose/sub"), at("temp")}},
		{"the home itself", at("home"), at("home"), at("temp"), nil, []string{at("home"), at("temp")}},
		{"a further one", at("linked"), at("linked"), at("temp"), []string{at("given")}, []string{at("linked"), at("given"), at("temp")}},
		{"all", at("linked"), at("linked"), at("temp"), []string{at("given"), "/"}, nil},
		{"the server is at the top", root, at("linked"), at("temp"), []string{at("given")}, []string{at("given")}},
		{"the call is at the top", at("linked"), root, at("temp"), nil, []string{}},
		{"temporary files in the home", at("linked"), at("linked"), at("home"), nil, []string{at("linked")}},
	} {
		s := NewSpaces(SpacesOptions{WorkingDir: tt.server, HomeDir: at("home"), TempDir: tt.temp, Roots: tt.given})
		if got := s.rootsOf(tt.call); !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// All tools that change files keep to the roots, by whatever name.
func TestToolsKeepToTheRoots(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"project/.git", "project/sub", "outside", "temp", "home"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", filepath.Join(top, "temp"))
	if os.TempDir() != filepath.Join(top, "temp") {
		t.Skip("the directory for temporary files cannot be set here")
	}
	secret := filepath.Join(top, "outside", "f")
	if err := os.WriteFile(secret, []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(top, "project/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../outside", filepath.Join(top, "project/dir")); err != nil {
		t.Fatal(err)
	}
	diff := `--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n`
	for _, profile := range Profiles() {
		set, err := New(Options{Profile: profile, WorkingDir: filepath.Join(top, "project", "sub"), HomeDir: filepath.Join(top, "home"), Environ: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = set.Close() })
		calls := map[string][]string{
			"text_editor": {
				`{"command":"write","path":%q,"file_text":"new\n"}`, `{"command":"str_replace","path":%q,"old_str":"old","new_str":"new"}`,
				`{"command":"insert","path":%q,"insert_line":0,"new_str":"new"}`, `{"command":"str_replace","path":%q,"diff":"` + diff + `"}`, `{"command":"undo_edit","path":%q}`,
			},
			"write": {`{"path":%q,"content":"new\n"}`},
			"edit":  {`{"path":%q,"before":"old","after":"new"}`},
		}
		for _, tool := range set.Tools() {
			for _, call := range calls[tool.Name] {
				for _, name := range []string{"../../outside/f", secret, "../link", "../dir/f", "file://" + filepath.ToSlash(secret), filepath.Join(top, "project") + "/../outside/f"} {
					refusedOutside(t, set, tool.Name, call, name, filepath.Join(top, "project"))
				}
			}
		}
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "old\n" {
		t.Errorf("the file outside is %q, %v", data, err)
	}
	if out, err := exec.Command("ls", "-A", filepath.Join(top, "outside")).Output(); err != nil || string(out) != "f\n" {
		t.Errorf("outside is %q, %v", out, err)
	}
}

func refusedOutside(t *testing.T, set *Toolset, tool, call, name, root string) {
	t.Helper()
	arguments := json.RawMessage(fmt.Sprintf(call, name))
	result, err := set.Call(t.Context(), tool, Call{Arguments: arguments})
	text := ""
	switch e, ok := errors.AsType[*Error](err); {
	case ok && e.Code == InternalError:
		text = e.Message
	case err == nil && result.IsError:
		text = result.Content[0].Text
	}
	for _, want := range []string{"outside", "/outside", root, "--root", "is not changed"} {
		if !strings.Contains(filepath.ToSlash(text), filepath.ToSlash(want)) {
			t.Errorf("%s %s: %+v, %v; it lacks %s", tool, arguments, result, err, want)
			return
		}
	}
}

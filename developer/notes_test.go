//go:build unix

package developer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every tool that changes a file says when its other names keep the old content.
func TestNotesOfHardLinks(t *testing.T) {
	dir := t.TempDir()
	store, modules := filepath.Join(dir, "store"), filepath.Join(dir, "node_modules")
	if err := errors.Join(os.Mkdir(store, 0o755), os.Mkdir(modules, 0o755)); err != nil {
		t.Fatal(err)
	}
	for profile, calls := range map[Profile][][2]string{
		Classic: {
			{"text_editor", `"command":"write","file_text":"new\n"`},
			{"text_editor", `"command":"str_replace","old_str":"old","new_str":"new"`},
			{"text_editor", `"command":"insert","insert_line":0,"new_str":"new"`},
			{"text_editor", `"command":"str_replace","diff":"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n"`},
		},
		Current: {{"write", `"content":"new\n"`}, {"edit", `"before":"old","after":"new"`}},
	} {
		set, err := New(Options{Profile: profile, WorkingDir: dir, HomeDir: dir, Environ: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls {
			for _, at := range []string{modules, dir} {
				name := filepath.Join(at, "f")
				_ = os.Remove(name)
				_ = os.Remove(filepath.Join(store, "f"))
				if err := errors.Join(os.WriteFile(name, []byte("old\n"), 0o644), os.Link(name, filepath.Join(store, "f"))); err != nil {
					t.Fatal(err)
				}
				result, err := set.Call(t.Context(), call[0], Call{Arguments: fmt.Appendf(nil, `{"path":%q,%s}`, name, call[1])})
				if err != nil || strings.Contains(result.Content[0].Text, "2 names (hard links)") != (at == modules) {
					t.Errorf("%s %s in %s: %v, %v", call[0], call[1], at, result.Content, err)
				}
			}
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
}

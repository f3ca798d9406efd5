package developer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/developer/shell"
)

// Commands of both profiles, and jobs, are kept from files by the kernel, and a program that
// cannot work under that says what permits it.
func TestKeptByKernel(t *testing.T) {
	if err := shell.CanKeepRules(); err != nil {
		if os.Getenv("GANDER_CHECK") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{".gooseignore": ".secret\n", ".secret": "content\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, profile := range Profiles() {
		set, err := New(Options{Profile: profile, WorkingDir: dir, Environ: os.Environ(), Jobs: true, Keeper: KeptByKernel, NeedKernel: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = set.Close() })
		for _, tt := range []struct{ tool, arguments, where, want string }{
			{"shell", `{"command":"awk 1 $(echo terces. | rev); true"}`, "", "Permission denied"},
			{"jobs", `{"action":"start","command":"awk 1 $(echo terces. | rev); true"}`, "", "job-1"},
			{"jobs", `{"action":"wait","id":"job-1"}`, "", "Permission denied"},
			{"shell", `{"command":"unshare -r true"}`, "", "--enforce off"},
			{"shell", `{"command":"echo 'sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.' >&2; false"}`, "", "--enforce off"},
			{"shell", `{"command":"su nobody -c true </dev/null || false"}`, "", "--enforce off"},
			{"shell", `{"command":"true"}`, "/", "--enforce auto"},
		} {
			result, err := set.Call(t.Context(), tt.tool, Call{Arguments: []byte(tt.arguments), WorkingDir: tt.where})
			text := ""
			if err != nil {
				text = err.Error()
			} else {
				text = result.Content[0].Text
			}
			if !strings.Contains(text, tt.want) || strings.Contains(text, "content") {
				t.Errorf("%s: %s %s: %q", profile, tt.tool, tt.arguments, text)
			}
		}
	}
}

package shell_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/developer/shell"
)

// TestLoginPath: the profile's PATH is used, whatever else it prints, and it is asked
// once; one that stops or waits for somebody costs time, not the command.
func TestLoginPath(t *testing.T) {
	for _, tt := range []struct{ name, profile, want string }{
		{"chatter", "echo welcome; export PATH=/profile:/bin; /bin/echo again >> $HOME/asked", "/profile:/bin\n"},
		{"leaves something", "sleep 600 & export PATH=/profile:/bin:/usr/bin", "/profile:/bin:/usr/bin\n"},
		{"reads", "read answer; export PATH=/profile", "/profile\n"},
		{"stops", "kill -STOP 0", "/usr/local/bin:/usr/bin:/bin\n"},
		{"fails", "exit 3", "/usr/local/bin:/usr/bin:/bin\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, ".bash_profile"), []byte(tt.profile+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			mark := newMark()
			r := newRunner(t, shell.Options{LoginPath: true, Shells: []string{"bash"}, Env: append(env("HOME="+home), mark)})
			for range 2 {
				if got := run(t, r, shell.Command{Line: `echo "$PATH"`}).Merged.Shown; got != tt.want {
					t.Errorf("PATH is %q, want %q", got, tt.want)
				}
			}
			if left := marked(mark); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if asked, err := os.ReadFile(filepath.Join(home, "asked")); err == nil && strings.Count(string(asked), "again") != 1 {
				t.Errorf("asked %d times", strings.Count(string(asked), "again"))
			}
		})
	}
}

// TestNobodyIsAsked: git and editors fail at once and say why.
func TestNobodyIsAsked(t *testing.T) {
	r := newRunner(t, shell.Options{})
	for _, name := range []string{"EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"} {
		res := run(t, r, shell.Command{Line: `sh -c "$` + name + ` file"`})
		if res.Code != 1 || !strings.Contains(res.Merged.Shown, "This shell has no editor") {
			t.Errorf("%s: %d %q", name, res.Code, res.Merged.Shown)
		}
	}
}

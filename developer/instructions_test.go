package developer

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestInstructions(t *testing.T) {
	unix := machine{os: "linux", workingDir: "/proj", shell: "/bin/zsh"}
	tests := []struct {
		name          string
		profile       Profile
		machine       machine
		with, without []string
	}{
		{
			"classic on Linux", Classic, unix,
			[]string{"`analyze`", "text_editor", "undo_edit", "operating system: linux\ncurrent directory: /proj\nshell: /bin/zsh\n", "2>&1 &"},
			[]string{"container", "PowerShell", "background jobs", "`tree`"},
		},
		{
			"current on macOS in a container with jobs", Current,
			machine{os: "darwin", workingDir: "{{WORKING_DIR}}", shell: "/bin/sh", container: true, jobs: true},
			[]string{"`tree`", "`edit`", "operating system: macos\ncurrent directory: {{WORKING_DIR}}\nshell: /bin/sh\ncontainer: true\n", "background jobs"},
			[]string{"text_editor", "screen_capture"},
		},
		{
			"classic on Windows", Classic,
			machine{os: "windows", workingDir: `C:\proj`},
			[]string{"operating system: windows\ncurrent directory: C:\\proj\n", "PowerShell", "%USERPROFILE%"},
			[]string{"\nshell: ", "2>&1 &"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := instructionsFor(tt.profile, tt.machine)
			for _, want := range tt.with {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in\n%s", want, got)
				}
			}
			for _, bad := range tt.without {
				if strings.Contains(got, bad) {
					t.Errorf("%q is in\n%s", bad, got)
				}
			}
		})
	}
}

func TestContainerGroups(t *testing.T) {
	for cgroup, want := range map[string]bool{
		"0::/\n": true, "0::/init.scope\n": false, "": false, "12:cpu:/docker/abc\n0::/docker/abc\n": true,
		"0::/system.slice/docker-abc.scope\n": true, "1:name=systemd:/kubepods/besteffort/pod1\n": true,
		"0::/machine.slice/libpod-abc.scope\n": true, "0::/lxc/x\n": true, "0::/containerd/x\n": true, "0::/user.slice\n": false,
	} {
		if got := containerGroups(cgroup); got != want {
			t.Errorf("%q: %v", cgroup, got)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// hintsIn is what a client is told in proj/sub below dir.
func hintsIn(t *testing.T, dir string, names ...string) string {
	t.Helper()
	w, err := newWorkshop(Options{WorkingDir: filepath.Join(dir, "proj", "sub"), ConfigDir: filepath.Join(dir, "config"), HomeDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	return w.hints(names)
}

func TestHints(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "AGENTS.md"), "above the repository")
	write(t, filepath.Join(dir, "config", "AGENTS.md"), "person @more.md\n")
	write(t, filepath.Join(dir, "config", "more.md"), "more of the person\n")
	write(t, filepath.Join(dir, "proj", ".git", "HEAD"), "")
	write(t, filepath.Join(dir, "proj", ".goosehints"), "root hints\n")
	write(t, filepath.Join(dir, "proj", "AGENTS.md"), "root agents: @sub/one.md and mail@example.org, @nosuch.md\n")
	write(t, filepath.Join(dir, "proj", "sub", "one.md"), "one @two.md")
	write(t, filepath.Join(dir, "proj", "sub", "two.md"), "two @one.md @../../AGENTS.md")
	write(t, filepath.Join(dir, "proj", "sub", "AGENTS.md"), "sub agents\n@/etc/passwd")
	const want = `
### Global Hints
person --- Content from more.md ---
more of the person
--- End of more.md ---

### Project Hints
root agents: --- Content from sub/one.md ---
one --- Content from two.md ---
two @one.md @../../AGENTS.md
--- End of two.md ---
--- End of sub/one.md --- and mail@example.org, @nosuch.md
root hints
sub agents
@/etc/passwd
`
	if got := hintsIn(t, dir, "AGENTS.md", ".goosehints", "../AGENTS.md"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := hintsIn(t, dir); got != "" {
		t.Errorf("no names: %q", got)
	}
}

// What a repository says may not bring in what the rules hide, what lies outside,
// or more than a model can use.
func TestHintsThatAreLeftOut(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir := t.TempDir()
	proj := filepath.Join(dir, "proj")
	write(t, filepath.Join(dir, "outside"), "OUTSIDE")
	write(t, filepath.Join(proj, ".git", "HEAD"), "")
	write(t, filepath.Join(proj, "sub", ".env"), "SECRET")
	write(t, filepath.Join(proj, "big.md"), strings.Repeat("BIG", maxHintFile))
	write(t, filepath.Join(proj, "AGENTS.md"), "here: @sub/.env @link.md @big.md @../outside @sub/")
	if err := os.Symlink("../outside", filepath.Join(proj, "link.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../outside", filepath.Join(proj, "sub", "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	got := hintsIn(t, dir, "AGENTS.md")
	if !strings.Contains(got, "here: ") {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"SECRET", "OUTSIDE", "BIG"} {
		if strings.Contains(got, bad) {
			t.Errorf("%s is in %.300q", bad, got)
		}
	}
}

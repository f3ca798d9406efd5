package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	conformance "gander.dev/gander/conformance/mcp"
)

// A place is where the developer server runs, and how.
type place struct {
	name     string
	profile  string
	platform string
	// command runs the server with the arguments; dir is where the checks work.
	command func(t *testing.T, dir string, args ...string) []string
	env     map[string]string
	// only limits the checks; empty means all.
	only []string
	// expected are the checks that fail there, with the reason.
	expected map[string]string
}

// The developer server is the same in every place: natively in both profiles, in a sandbox of
// gander's own, and in a container. In check it runs in the first alone.
func TestDeveloperConforms(t *testing.T) {
	places := []place{
		{name: "classic", profile: conformance.Classic, command: native},
		{name: "current", profile: conformance.Current, command: native},
		{name: "in a sandbox", profile: conformance.Classic, command: inSandbox, expected: map[string]string{
			"policy.empty-file": "the sandbox's rules are those of its project, and a file further down does not take their defaults back",
		}},
		{name: "in a container", profile: conformance.Classic, command: inContainer},
	}
	if !everywhere {
		places = places[:1]
	}
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) { p.check(t) })
	}
}

// check runs the harness and fails for every check that does.
func (p place) check(t *testing.T) {
	t.Helper()
	report := p.run(t)
	var unmade []string
	for _, res := range report.Results {
		switch {
		case !res.Bad():
		case p.platform == "windows" && strings.Contains(strings.Join(res.Problems, "\n"), notMade):
			t.Logf("wine made no process, so this is checked again: %s: %q", res.ID, res.Problems)
			unmade = append(unmade, res.ID)
		default:
			t.Errorf("%s: %s: %q", res.ID, res.State, res.Problems)
		}
	}
	if report.Count(conformance.Pass) < 20 && len(p.only) == 0 {
		t.Errorf("%s: the run proves little", report.Summary())
	}
	t.Log(report.Summary())
	if p.only = unmade; len(unmade) == 0 {
		return
	}
	for _, res := range p.run(t).Results {
		if res.Bad() {
			t.Errorf("%s, again: %s: %q", res.ID, res.State, res.Problems)
		}
	}
}

// notMade is what Go calls it when the system does not make a process. Wine's server takes
// one for ended, now and then, that is only being made.
const notMade = "fork/exec "

func (p place) run(t *testing.T) *conformance.Report {
	t.Helper()
	dir, home := workspace(t), workspace(t)
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "HOME": home, "GANDER_HOME": filepath.Join(home, "gander"),
	}
	maps.Copy(env, p.env)
	report, err := conformance.Run(t.Context(), conformance.Options{
		Command: p.command(t, dir, "--profile", p.profile, "--log-level", "debug", "--log-format", "json"),
		Profile: p.profile, Platform: p.platform, Only: p.only, Timeout: patience, Dir: dir, Environ: list(env), Expected: p.expected,
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// workspace is a directory that has the same name everywhere.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(staged.dir, "conformance-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the harness leaves files that cannot be removed: %v", err)
		}
	})
	return dir
}

func list(env map[string]string) []string {
	var all []string
	for k, v := range env {
		all = append(all, k+"="+v)
	}
	return all
}

func native(t *testing.T, _ string, args ...string) []string {
	t.Helper()
	return append([]string{needGander(t), "mcp", "developer"}, args...)
}

// inSandbox runs the server where gander runs its agents. Only the directory in
// which it works is the host's.
func inSandbox(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	gander := needGander(t)
	inside := filepath.Join(dir, "gander-inside")
	if err := copyFile(gander, inside); err != nil {
		t.Fatal(err)
	}
	return append([]string{gander, "sandbox", "exec", "--sandbox", "local", "--cwd", dir, "--", "sh", "-c", `cd "$0" && exec "$@"`, "{dir}", inside, "mcp", "developer"}, args...)
}

// inContainer runs the server in a container that has nothing of gander but the
// binary, as goose does with docker exec.
func inContainer(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	needDocker(t)
	gander := needGander(t)
	id := strings.TrimSpace(docker(t, "run", "--detach", "--rm", "--init", "--network=none", "--volume", dir+":"+dir, "--volume", gander+":/usr/local/bin/gander:ro",
		"debian:bookworm-slim", "sleep", "3600"))
	t.Cleanup(func() { docker(t, "rm", "--force", id) })
	return append([]string{"docker", "exec", "--interactive", "--workdir", "{dir}", id, "gander", "mcp", "developer"}, args...)
}

// The Windows build, first with a pwsh that records how it is called (wine has none
// that runs commands), and then with nothing but cmd.
func TestDeveloperConformsOnWindows(t *testing.T) {
	spots(t)
	t.Parallel()
	dir := needWine(t)
	forWindows(t, dir, "bin/pwsh.exe", "./testdata/pwsh", "build")
	record := filepath.Join(dir, "record")
	p := place{
		profile: conformance.Classic, platform: "windows", env: wineEnv(dir),
		command: func(_ *testing.T, _ string, args ...string) []string {
			return append([]string{"wine", filepath.Join(dir, "gander.exe"), "mcp", "developer"}, args...)
		},
	}
	t.Run("pwsh", func(t *testing.T) {
		p := p
		p.env = maps.Clone(p.env)
		maps.Copy(p.env, map[string]string{"WINEPATH": windowsPath(filepath.Join(dir, "bin")), "PWSH_RECORD": windowsPath(record)})
		p.only = []string{
			"lifecycle.versions", "lifecycle.capabilities", "transport.one-shot", "transport.garbage", "tools", "shell.works", "shell.exit-code", "cancel.running", "cancel.escapes",
			"policy", "editor", "diff", "analyze", "image",
		}
		p.expected = map[string]string{
			"analyze.structure": "the build without cgo parses Go only",
			"analyze.languages": "the build without cgo parses Go only",
		}
		p.check(t)
		recorded(t, record)
	})
	t.Run("cmd", func(t *testing.T) {
		p := p
		stub := filepath.Join(dir, "prefix", "drive_c", "windows", "system32", "WindowsPowerShell", "v1.0", "powershell.exe")
		if err := os.Remove(stub); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		p.only = []string{"shell", "cancel.at-once", "cancel.escapes", "metadata", "streaming.incremental", "end.eof-running", "end.sigkill", "output.tail"}
		p.check(t)
	})
}

// recorded checks how pwsh was called.
func recorded(t *testing.T, record string) {
	t.Helper()
	calls, err := os.ReadFile(record)
	if err != nil {
		t.Fatalf("pwsh is on PATH and was not taken: %v", err)
	}
	for line := range strings.Lines(string(calls)) {
		if !strings.HasPrefix(line, "-NoProfile|-NonInteractive|-Command|") {
			t.Errorf("pwsh is called with %q", line)
		}
	}
}

// The command prints what the package reports.
func TestConformanceCommand(t *testing.T) {
	gander := needGander(t)
	dir := workspace(t)
	junit, expected := filepath.Join(dir, "junit.xml"), filepath.Join(dir, "expected")
	run := func(args ...string) (int, string) {
		cmd := exec.CommandContext(soon(t), gander, append([]string{"conformance", "mcp"}, args...)...)
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), out.String()
	}
	code, text := run("--json", "--junit", junit, "--only", "lifecycle.identity,tools.names", "--", gander, "mcp", "developer")
	var report struct {
		Good   bool
		Checks []struct{ ID, State string }
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil || code != 0 || !report.Good || len(report.Checks) != 2 {
		t.Errorf("exit %d, %v: %s", code, err, text)
	}
	if xml, err := os.ReadFile(junit); err != nil || !bytes.Contains(xml, []byte(`tests="2" failures="0"`)) {
		t.Errorf("JUnit's XML: %v: %s", err, xml)
	}
	if err := os.WriteFile(expected, []byte("# known\ntools.names it is good, so this is wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, text = run("--expected-failures", expected, "--only", "tools.names", "--", gander, "mcp", "developer")
	if code != 1 || !strings.Contains(text, "expected to fail") {
		t.Errorf("an expected failure that passes: exit %d: %s", code, text)
	}
}

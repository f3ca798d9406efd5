package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// readmePatience bounds all commands of the README together, on a busy machine.
const readmePatience = 12 * time.Minute

// fences are the shell blocks of a document.
var fences = regexp.MustCompile("(?s)```sh\n(.*?)```")

// readmeCommands are the lines of the shell blocks, in order.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(fromRoot(t, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, block := range fences.FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	return lines
}

// replaced are the commands that do not run here as they stand, and why.
var replaced = []struct{ line, with, why string }{
	{"make check", ":", "it is what runs this test"},
	{"https://llm.example", "$MODEL_HOST", "the model of a test"},
	{"gpt-4o", "scripted", "the name that it has"},
	{"sk-…", canary, "the key of that model"},
	{"gander doctor ", "gander doctor || [ $? = 1 ] ", "it may find something about this machine; what counts is that it ends"},
	{"gander policy trust ", "gander policy trust || [ $? = 2 ] ", "the checkout has no file to be trusted"},
	{"conformance acp -- ", "conformance acp --only lifecycle -- ", "the rest takes minutes"},
	{"gander serve ", "gander serve --listen 127.0.0.1:0 > served & until gander loop status; do sleep 1; done ", "it stays until it is stopped"},
	{"make test", "make -s -f hello.mk", "the tests are for outside"},
}

// Every command of the README works, in its order, for somebody with an empty home
// and a copy of the checkout. What needs an editor writes the editor's file.
func TestReadme(t *testing.T) {
	needRoot(t)
	needDocker(t)
	w := newWorld(t, home, 0)
	copied := w.mkdir("checkout")
	copyCheckout(t, copied)
	w.write(copied, "hello.mk", "hello:\n\t@echo hello from make\n")

	commands := readmeCommands(t)
	if len(commands) < 10 {
		t.Fatalf("only %d commands were found: %q", len(commands), commands)
	}
	var b strings.Builder
	b.WriteString("trap 'gander loop stop || true; kill $(jobs -p) || true' EXIT\n")
	for _, line := range commands {
		for _, r := range replaced {
			line = strings.ReplaceAll(line, r.line, r.with)
		}
		b.WriteString("echo '+ " + strings.ReplaceAll(line, "'", `'\''`) + "' >&2\n" + line + "\n")
	}
	ctx, stop := context.WithTimeout(t.Context(), readmePatience)
	defer stop()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.String())
	cmd.Dir = copied
	env := w.baseEnv()
	env["MODEL_HOST"] = w.host
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOFLAGS"} { // what was downloaded and compiled before
		env[name] = goEnv(t, name)
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"hello from make", "Successfully tagged goku-sandbox-opencode"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the README's commands do not print %q: %s", want, out.String())
		}
	}
	settings := w.read(filepath.Join(env["HOME"], ".config/zed/settings.json"))
	if !strings.Contains(settings, `"agent_servers"`) || !strings.Contains(settings, `"acp"`) {
		t.Errorf("Zed's settings are %s", settings)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(soon(t), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// copyCheckout copies what git does not ignore and links what npm has installed.
func copyCheckout(t *testing.T, to string) {
	t.Helper()
	root := fromRoot(t)
	script := `cd "$1" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 cp -a --parents -t "$2" 2>/dev/null || true
		ln -s "$1/sandbox/node_modules" "$2/sandbox/node_modules"`
	if out, err := exec.CommandContext(soon(t), "bash", "-c", script, "copy", root, to).CombinedOutput(); err != nil {
		t.Fatalf("copying the checkout: %v: %s", err, out)
	}
	need(t, exists(filepath.Join(to, "Makefile")) && exists(filepath.Join(to, "sandbox/node_modules/.installed")), "a checkout with its agents (make agents)")
}

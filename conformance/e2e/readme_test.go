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

// readmePatience bounds all commands of the documents together, on a busy machine.
const readmePatience = 12 * time.Minute

// fences are the shell blocks of a document.
var fences = regexp.MustCompile("(?s)```sh\n(.*?)```")

// documents lists the READMEs and SECURITY.md of a checkout, those of its top first.
func documents(t *testing.T, root string) []string {
	t.Helper()
	var top, below []string
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "node_modules" || e.Name() == ".git"):
			return filepath.SkipDir
		case e.Name() != "README.md" && e.Name() != "SECURITY.md":
		case filepath.Dir(path) == root:
			top = append(top, path)
		default:
			below = append(below, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(top, below...)
}

// documentCommands returns the lines of the shell blocks of all documents, in order.
func documentCommands(t *testing.T, root string) []string {
	t.Helper()
	var lines []string
	for _, path := range documents(t, root) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fences.FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
		}
	}
	return lines
}

// replaced lists the commands that do not run here as they stand, and why.
var replaced = []struct{ line, with, why string }{
	{"make demo ", "make debian; gander demo --agent goose --sandbox local ", "TestDemo plays every agent in every sandbox; the build is a line of its own"},
	{"make check ", ": ", "it runs this test"},
	{"gander setup  ", "LLM_API_KEY=sk-… gander setup --non-interactive --host https://llm.example --model gpt-4o --store-key ", "it asks on a terminal"},
	{"https://llm.example", "$MODEL_HOST", "the model of a test"},
	{"gpt-4o", "scripted", "the name that it has"},
	{"sk-…", canary, "the key of that model"},
	{"gander doctor ", "gander doctor || [ $? = 1 ] ", "it may find something about this machine; what counts is that it ends"},
	{"gander policy explain .env ", "! gander policy explain .env ", "the answer is no"},
	{"gander policy explain github.com:443 ", "! gander policy explain github.com:443 ", "the answer is no"},
	{"gander policy trust ", "gander policy trust || [ $? = 2 ] ", "the checkout has no file to be trusted"},
	{"conformance acp -- ", "conformance acp --only lifecycle -- ", "the rest takes minutes"},
	{"conformance mcp -- ", "conformance mcp --only lifecycle -- ", "TestDeveloperConforms runs all of them"},
	{"gander sandbox build", "gander sandbox build --help", "make images has built them, and TestImages looks at them"},
	{"gander serve ", "gander loop status || { gander serve --listen 127.0.0.1:0 > served & until gander loop status; do sleep 1; done; } ", "it stays until it is stopped"},
	{"make test", "make -s -f hello.mk", "the tests are for outside"},
}

// Every command of the documents works, in their order, for somebody with an empty home
// and a copy of the checkout. What needs an editor writes the editor's file. The agents
// are there: TestNewcomer has npm install them.
func TestReadme(t *testing.T) {
	needRoot(t)
	w := newWorld(t, home, 0)
	copied := w.mkdir("checkout")
	copyCheckout(t, copied)
	w.write(copied, "hello.mk", "hello:\n\t@echo hello from make\n")

	commands := documentCommands(t, copied)
	if len(commands) < 40 {
		t.Fatalf("only %d commands were found: %q", len(commands), commands)
	}
	var b strings.Builder
	b.WriteString("trap 'gander loop stop || true; kill $(jobs -p) || true' EXIT\n")
	used := map[string]bool{}
	for _, line := range commands {
		for _, r := range replaced {
			used[r.line] = used[r.line] || strings.Contains(line, r.line)
			line = strings.ReplaceAll(line, r.line, r.with)
		}
		b.WriteString("echo \"+ $SECONDS s: \"'" + strings.ReplaceAll(line, "'", `'\''`) + "' >&2\n" + line + "\n")
	}
	for _, r := range replaced {
		if !used[r.line] {
			t.Errorf("no document says %q any more: it need not be replaced", r.line)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), readmePatience)
	defer stop()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.String())
	cmd.Dir = copied
	env := w.baseEnv()
	env["MODEL_HOST"] = w.host
	for _, a := range agents {
		env["GANDER_"+a.variable("_CMD")] = a.program(t)
	}
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
	t.Logf("%d commands took %s of processor time", len(commands), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Round(time.Second))
	if !strings.Contains(out.String(), "hello from make") {
		t.Errorf("the command of the README does not run in the sandbox: %s", out.String())
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

// copyCheckout copies what git does not ignore. npm's directories are not linked: npm ci
// in the copy would empty those of the checkout.
func copyCheckout(t *testing.T, to string) {
	t.Helper()
	root := fromRoot(t)
	script := `cd "$1" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 cp -a --parents -t "$2" 2>/dev/null || true`
	if out, err := exec.CommandContext(soon(t), "bash", "-c", script, "copy", root, to).CombinedOutput(); err != nil {
		t.Fatalf("copying the checkout: %v: %s", err, out)
	}
	need(t, exists(filepath.Join(to, "Makefile")), "a checkout")
}

package e2e

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/conformance/model"
)

// The key stays outside: while a prompt runs, its bytes are in no environment and
// no argument of any process below gander and in none's memory, and the command
// itself cannot find them, nor is it in what a daemon knows of a container; afterwards they are in no file that gander or the agent wrote.
func TestKeyStaysOutside(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		traces := w.mkdir("traces")
		e := w.gander(nil, "--trace", filepath.Join(traces, "trace.jsonl"), "--log-file", filepath.Join(traces, "gander.log"))
		e.allows = true // opencode asks before a command names a path outside the project
		e.initialize()
		project := w.mkdir("project")
		s := e.session(project)
		p := s.prompt(script(t, w.shell(searchInside(canary)+"; echo searched; until [ -e go ]; do sleep 0.1; done"), says("done")))
		p.until("the search inside", func(u update) bool { return strings.Contains(u.text(), "searched") })

		below := w.below(e)
		if len(below) < 3 {
			t.Errorf("below gander run only %v", below)
		}
		for _, d := range below {
			if bytes.Contains(d.environ, []byte(canary)) || strings.Contains(d.args, canary) {
				t.Errorf("the key is known to %v", d)
			}
		}
		if !inMemory(t, e.pid(), canary) {
			t.Error("gander itself does not have the key in its memory: that search proves nothing")
		}
		for _, d := range below {
			if inMemory(t, d.pid, canary) {
				t.Errorf("the key is in the memory of %v", d)
			}
		}
		if inspect := w.cell.driver.inspect; inspect != nil {
			if known := inspect(t, w.containers()); strings.Contains(known, canary) || !strings.Contains(known, project) {
				t.Errorf("the daemon knows of the container: %s", known)
			}
		}
		w.write(project, "go", "on\n")
		turn := p.done("end_turn")
		if tool, _ := turn.tool(0); strings.Contains(tool.text(), "FOUND") || !strings.Contains(tool.text(), "searched") {
			t.Errorf("the search inside says %q", tool.text())
		}
		if all := w.model.Requests(); len(all) == 0 || !strings.Contains(all[0].Header.Get("Authorization"), canary) {
			t.Error("the key did not reach the model: the test proves nothing")
		}
		searchFiles(t, w.dir)
		e.end()
		searchFiles(t, w.dir)
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, ev := range e.events {
			if strings.Contains(ev.Line, canary) {
				t.Errorf("the key is in what gander says: %s", shorten(ev.Line))
			}
		}
	})
}

// TestKeyStaysOutsideByProtocol looks for the key in the same places while an agent works by each
// protocol of model calls: it is in none. A marker that is put inside is found by the same search.
func TestKeyStaysOutsideByProtocol(t *testing.T) {
	for calls, path := range map[string]string{"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"} {
		t.Run(calls, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, home, 0)
			protocol := map[string]string{"messages": "anthropic"}[calls]
			w.write(w.mkdir("gander"), "config.json", fmt.Sprintf(`{"providers": {"lab": {"baseUrl": %q, "protocol": %q, "model": "scripted", "apiKeyEnv": "LLM_API_KEY"}},
				"agents": {"talker": {"command": [%q, %q], "protocol": %[2]q, "provider": "lab", "env": {"TALKER_URL": "{modelUrlV1}", "TALKER_KEY": "{key}"}}}}`,
				w.host, cmp.Or(protocol, "openai"), w.standIn("talker"), calls))
			e := w.gander(nil, "--agent", "talker")
			e.allows = true
			e.initialize()
			project := w.mkdir("project")
			s := e.session(project)
			marker := "marker-by-" + rand.Text()
			shell := func(command string) step {
				return step{"tool": "shell", "args": map[string]any{"command": command}}
			}
			p := s.prompt(script(t, shell(searchInside(canary)+"; echo searched"),
				shell("echo "+marker+" > \"$HOME/kept\"; MARK="+marker+" sleep 1000 & until grep -sqa MARK= /proc/$!/environ; do sleep 0.1; done; "+searchInside(marker)+"; echo controlled; kill $!"),
				shell("touch begun; until [ -e go ]; do sleep 0.1; done"), says("done")))
			eventually(t, "the last command", func() bool { return exists(filepath.Join(project, "begun")) })
			below := w.below(e)
			marked := 0
			for _, d := range below {
				if bytes.Contains(d.environ, []byte(canary)) || strings.Contains(d.args, canary) || inMemory(t, d.pid, canary) {
					t.Errorf("the key is known to %v", d)
				}
				if inMemory(t, d.pid, marker) {
					marked++
				}
			}
			if len(below) < 3 || marked == 0 || !inMemory(t, e.pid(), canary) {
				t.Errorf("of %d processes below gander %d have the marker in their memory, or gander has no key: the search proves nothing", len(below), marked)
			}
			w.write(project, "go", "on\n")
			turn := p.done("end_turn")
			if tool, _ := turn.tool(0); tool.text() != "searched\n" {
				t.Errorf("the search for the key says %q", tool.text())
			}
			control, _ := turn.tool(1)
			for _, place := range []string{"FOUND in an environment", "FOUND in an argument", "FOUND in /"} {
				if !strings.Contains(control.text(), place) {
					t.Errorf("the search for the marker says %q, and nothing of %s", control.text(), place)
				}
			}
			for _, r := range w.model.Requests() {
				if sent := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key"); r.Path == path && !strings.Contains(sent, canary) {
					t.Errorf("the key did not reach %s: the test proves nothing", path)
				}
			}
			if !slices.ContainsFunc(w.model.Requests(), func(r model.Request) bool { return r.Path == path }) {
				t.Errorf("nothing was asked of %s", path)
			}
			e.end()
			searchFiles(t, w.dir)
		})
	}
}

// Nor is it in an image, whose files and description say nothing of who built it, nor where
// each step of the build runs while the key is set.
func TestKeyIsInNoImage(t *testing.T) {
	spots(t)
	t.Parallel()
	needDocker(t)
	build := exec.CommandContext(t.Context(), needGander(t), "sandbox", "build", "--context", "sandbox", "--no-cache", "goose")
	build.Dir = fromRoot(t, ".")
	build.Env = append(os.Environ(), "LLM_API_KEY="+canary, "OPENAI_API_KEY="+canary, "LLM_HOST=http://127.0.0.1:1")
	said, err := build.CombinedOutput()
	if err != nil || bytes.Contains(said, []byte(canary)) {
		t.Fatalf("building an image: %v: %s", err, said)
	}
	if bytes.Contains(said, []byte("Using cache")) || !bytes.Contains(said, []byte("RUN goose --version")) {
		t.Errorf("steps of the build did not run: %s", said)
	}
	for _, a := range agents {
		if imageHolds(t, "goku-sandbox-"+a.name) {
			t.Errorf("the key is in the image of %s", a.name)
		}
	}
	const marked = "gander-e2e-key"
	file := filepath.Join(workspace(t), "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM debian:bookworm-slim\nRUN echo "+canary+" > /key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	docker(t, "build", "-q", "-t", marked, "-f", file, filepath.Dir(file))
	t.Cleanup(func() { docker(t, "image", "rm", marked) })
	if !imageHolds(t, marked) {
		t.Error("the key is not found in an image that holds it: the search proves nothing")
	}
}

// imageHolds reports whether the key is in an image's layers or description.
func imageHolds(t *testing.T, image string) bool {
	t.Helper()
	save := exec.CommandContext(t.Context(), "docker", "save", image)
	out, err := save.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := save.Start(); err != nil {
		t.Fatal(err)
	}
	found := holds(out, canary)
	_, _ = io.Copy(io.Discard, out)
	if err := save.Wait(); err != nil {
		t.Fatalf("docker save %s: %v", image, err)
	}
	return found
}

// searchInside is a command that looks for a secret in all that a command can
// see. The pattern has a bracket, so that the command does not find itself.
func searchInside(secret string) string {
	return "p='" + strings.Replace(secret, "y", "[y]", 1) + `'
grep -sqa "$p" /proc/[0-9]*/environ && echo FOUND in an environment
grep -sqa "$p" /proc/[0-9]*/cmdline && echo FOUND in an argument
cat /proc/[0-9]*/maps 2>/dev/null | grep -o ' /.*' | sort -u | while read -r f; do
  case $f in */goose|*/opencode|*/gander) ;; *) [ -f "$f" ] && grep -sqa "$p" "$f" && echo FOUND in the mapped file "$f";; esac
done
env | grep -qa "$p" && echo FOUND in the own environment
grep -rsla "$p" . "$HOME" "${TMPDIR:-/tmp}" /run 2>/dev/null | sed 's/^/FOUND in /'`
}

// inMemory reports whether a secret is in what a process can write in its memory, as
// far as anything is there.
func inMemory(t *testing.T, pid int, secret string) bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false // it has ended
	}
	open := func(name string) *os.File {
		f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			t.Errorf("the memory of process %d cannot be read: %v", pid, err)
			return nil
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	mem, pages := open("mem"), open("pagemap")
	if mem == nil || pages == nil {
		return false
	}
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n != 3 || !strings.HasPrefix(mode, "rw") {
			continue
		}
		for start, end := range present(pages, from, to) {
			if holds(io.NewSectionReader(mem, start, end-start), secret) {
				return true
			}
		}
	}
	return false
}

// present are the runs of pages of a region of memory that anything is in; most of
// some regions is only set aside.
func present(pages io.ReaderAt, from, to int64) iter.Seq2[int64, int64] {
	page := int64(os.Getpagesize())
	const many = 4096
	return func(yield func(int64, int64) bool) {
		start := int64(-1)
		entries := make([]byte, many*8)
		for at := from; at < to; at += many * page {
			n, _ := pages.ReadAt(entries[:min(many, (to-at)/page)*8], at/page*8)
			for i := 0; i+8 <= n; i += 8 {
				there, here := binary.LittleEndian.Uint64(entries[i:])>>62 != 0, at+int64(i/8)*page
				if there && start < 0 {
					start = here
				}
				if !there && start >= 0 {
					if !yield(start, here) {
						return
					}
					start = -1
				}
			}
		}
		if start >= 0 {
			yield(start, to)
		}
	}
}

// holds reports whether a secret is in what can be read.
func holds(r io.Reader, secret string) bool {
	const step = 64 << 10
	buf := make([]byte, 0, step+len(secret))
	for {
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+step])
		buf = buf[:len(buf)+n]
		if bytes.Contains(buf, []byte(secret)) {
			return true
		}
		if err != nil {
			return false
		}
		buf = append(buf[:0], buf[len(buf)-len(secret):]...)
	}
}

// searchFiles fails the test for every file below dir that holds the key.
func searchFiles(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a file that has just been removed holds nothing
		}
		files++
		text, err := os.ReadFile(name)
		if err != nil {
			return nil
		}
		if bytes.Contains(text, []byte(canary)) {
			t.Errorf("the key is in the file %s", name)
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Fatalf("%d files below %s, %v: the search proves nothing", files, dir, err)
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gander.dev/gander/conformance/model"
)

// A screen is a real terminal, in tmux.
type screen struct {
	t      *testing.T
	socket string
	kept   string // the file that keeps what it showed
}

// startScreen runs gander on a terminal of its own. The terminal stays for a last look.
func startScreen(t *testing.T, columns int, environ []string, args ...string) *screen {
	t.Helper()
	s := &screen{t, filepath.Join(t.TempDir(), "tmux"), filepath.Join(t.ArtifactDir(), "screens.txt")}
	command := fmt.Sprintf("trap : INT; env %s gander %s; sleep 60", quoted(environ), strings.Join(args, " "))
	s.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(columns), "-y", "24", "sh", "-c", command)
	shell := strings.TrimSpace(s.tmux("list-panes", "-F", "#{pane_pid}"))
	t.Cleanup(func() { // what gander still clears away must be gone before the test's directories are
		_ = exec.Command("tmux", "-S", s.socket, "kill-server").Run()
		for deadline := time.Now().Add(20 * time.Second); exec.Command("pgrep", "-s", shell).Run() == nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("gander still runs 20 s after its terminal was closed")
				return
			}
		}
	})
	return s
}

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// press sends keys by tmux's names; text is sent as it is.
func (s *screen) press(keys ...string) {
	s.t.Helper()
	s.tmux(append([]string{"send-keys"}, keys...)...)
}

// cells returns the screen's lines; with styles, as they are drawn.
func (s *screen) cells(styled bool) string {
	s.t.Helper()
	if styled {
		return s.tmux("capture-pane", "-p", "-e")
	}
	return s.tmux("capture-pane", "-p")
}

// see waits until the screen shows a line that matches, and returns the screen.
func (s *screen) see(pattern string) string {
	s.t.Helper()
	want := regexp.MustCompile("(?m)" + pattern)
	deadline := time.Now().Add(time.Minute)
	for {
		now := s.cells(false)
		if want.MatchString(now) {
			s.keep(pattern)
			return now
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no line matches %q on the screen:\n%s", pattern, now)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// keep adds the screen, as it is drawn, to the test's artifacts.
func (s *screen) keep(what string) {
	s.t.Helper()
	f, err := os.OpenFile(s.kept, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(f, "── %s columns, %s ──\n%s\n", strings.TrimSpace(s.tmux("display-message", "-p", "#{window_width}")), what, strings.TrimRight(s.cells(true), "\n"))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.t.Error(err)
	}
}

const chatScript = `{"rules": [
  {"match": "say much", "steps": [{"text": "# Heading\n\nSome **strong** words and ` + "`code`" + `, in a line that is too long for any terminal that is fifty or eighty columns wide.\n\n` + "```" + `go\nfunc main() {}\n` + "```" + `\n\n| Name | Size |\n|---|--:|\n| a | 12 |\n\nThe end."}]},
  {"match": "go on", "steps": [{"tokens": 5000, "delay": 20}]},
  {"match": "look around", "steps": [{"tool": "shell", "args": {"command": "echo folded output"}}, {"text": "Looked."}]},
  {"match": "fix it", "steps": [{"tool": "edit", "args": {"path": "a.txt", "before": "two", "after": "2"}}, {"text": "Fixed."}]}
]}`

// chatEnviron is the environment of a person who has set gander up, in a home of its own.
func chatEnviron(t *testing.T) (environ []string, project string) {
	t.Helper()
	script, err := model.ParseScript([]byte(chatScript))
	if err != nil {
		t.Fatal(err)
	}
	server := model.New(model.Options{Script: script, Models: []string{"scripted", "other"}, Key: testKey})
	url, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	dir := t.TempDir()
	project = filepath.Join(dir, "project")
	if err := os.MkdirAll(project, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "a.txt"), []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{
		"-C", project, "GANDER_HOME=" + filepath.Join(dir, "home"), "LLM_HOST=" + url, "LLM_API_KEY=" + testKey, "GOOSE_MODEL=scripted", "GANDER_GOOSE_CMD=" + goosePath(),
	}, project
}

// Watches a conversation as a person sees it: the stream, a folded tool call, a question and
// its difference, commands, history, a cancel, another width, the end, and how it goes on.
func TestChatOnTerminal(t *testing.T) {
	needTerminal(t)
	environ, project := chatEnviron(t)
	s := startScreen(t, 80, environ)
	s.see(`goose · scripted · auto · `)

	s.press("say much", "Enter")
	s.see(`^ a +│ +12$`)
	shown := s.see(`^The end\.$`)
	for _, line := range []string{"› say much", "# Heading", "Some strong words and code, in a line that is too long", "  func main() {}"} {
		if !strings.Contains(shown, line) {
			t.Errorf("the screen does not show %q", line)
		}
	}
	styled := s.cells(true)
	for what, text := range map[string]string{"the heading is not bold": "\x1b[1m# Heading", "the code is not coloured": "\x1b[34mfunc"} {
		if !strings.Contains(styled, text) {
			t.Error(what)
		}
	}

	s.press("look around", "Enter")
	if shown := s.see(`^Looked\.$`); strings.Contains(shown, "  │ folded output") || !strings.Contains(shown, "✓ shell · echo folded output") {
		t.Error("a tool call that went well is not one line")
	}

	s.press("/mo")
	s.see(`^› /mode +Mode: auto$`)
	s.press("Tab", "app", "Tab", "Enter")
	s.see(`goose · scripted · approve · `)
	s.press("fix it", "Enter")
	s.see(`^› y  allow once$`)
	s.press("Down", "Up", "y")
	shown = s.see(`^Fixed\.$`)
	for _, line := range []string{"  │ -two", "  │ +2"} {
		if !strings.Contains(shown, line) {
			t.Errorf("the difference does not show %q", line)
		}
	}
	if got, err := os.ReadFile(filepath.Join(project, "a.txt")); err != nil || string(got) != "one\n2\nthree\n" {
		t.Errorf("a.txt is %q, %v", got, err)
	}

	s.press("go on", "Enter")
	s.see(`t20 `)
	s.press("C-c")
	s.see(`^! cancelled`)
	s.press("Up", "Up")
	s.see(`^› fix it`)
	s.press("C-u")

	s.tmux("resize-window", "-x", "50", "-y", "24")
	s.press("say much", "Enter")
	s.see(`^long for any terminal that is fifty or eighty$`)
	for line := range strings.Lines(s.see(`^The end\.$`)) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 50 {
			t.Errorf("a line of %d columns on a terminal of 50: %q", n, line)
		}
	}
	s.see(`^goose · scripted`)
	s.press("C-c")
	s.see(`^Ctrl-C again ends the conversation`)
	s.press("C-c")
	s.see(`^gander chat --session [0-9a-f]{6} goes on`)

	s = startScreen(t, 80, append(environ, "NO_COLOR=1"), "chat", "--continue")
	s.see(`^› say much`)
	s.see(`goose · scripted · approve`)
	if styled := s.cells(true); regexp.MustCompile(`\x1b\[[0-9;]*3[1-6]m`).MatchString(styled) {
		t.Errorf("a colour in spite of NO_COLOR:\n%q", styled)
	}
}

// Watches a terminal that cannot draw: lines, and questions answered by a letter.
func TestChatOnDumbTerminal(t *testing.T) {
	needTerminal(t)
	environ, _ := chatEnviron(t)
	s := startScreen(t, 80, append(environ, "TERM=dumb"), "chat")
	s.see(`^› `)
	s.press("look around", "Enter")
	s.see(`^Looked\.$`)
	s.press("go on", "Enter")
	s.see(`t20 `)
	s.press("C-c")
	s.see(`^cancelled after `)
	s.press("/exit", "Enter")
	if shown := s.cells(false); strings.Contains(shown, "✗") {
		t.Errorf("something failed:\n%s", shown)
	}
}

// needTerminal skips, or fails in check, without what a conversation takes.
func needTerminal(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("tmux")
	switch missing := goosePath() == "" || err != nil; {
	case missing && os.Getenv("GANDER_CHECK") == "1":
		t.Fatalf("goose (make agents) or tmux is missing: %v", err)
	case missing || testing.Short():
		t.Skip("goose and tmux take part, and seconds")
	}
}

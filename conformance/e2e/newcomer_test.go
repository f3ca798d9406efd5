package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// newcomer is a person with an empty home who has gander and nothing else.
type newcomer struct {
	w       *world
	gander  string
	env     map[string]string
	project string
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	uid := 0
	if os.Geteuid() == 0 {
		uid = ordinaryUser
	}
	w := newWorld(t, cell{agent: agents[0], driver: drivers[0]}, uid)
	n := &newcomer{w: w, gander: needGander(t), env: w.baseEnv(), project: w.mkdir("project")}
	w.write(n.project, "README.md", "A project.\n")
	return n
}

// does runs gander and returns what it printed; other exit codes than 0 end the test.
func (n *newcomer) does(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	out, code := n.tries(t, env, args...)
	if code != 0 {
		t.Fatalf("gander %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

func (n *newcomer) tries(t *testing.T, env map[string]string, args ...string) (string, int) {
	t.Helper()
	return n.run(t, env, append([]string{n.gander}, args...)...)
}

// newcomerPatience is enough for an installation by npm on a busy machine.
const newcomerPatience = 5 * time.Minute

// run runs a command as the newcomer, in their project, and returns its stdout and
// exit code.
func (n *newcomer) run(t *testing.T, env map[string]string, command ...string) (string, int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), newcomerPatience)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	all := maps.Clone(n.env)
	maps.Copy(all, env)
	for k, v := range all {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out, complaints bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.project, &out, &complaints
	n.w.become(cmd)
	err := cmd.Run()
	t.Logf("%q says on stderr:\n%s", command, &complaints)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	return out.String(), 0
}

// The first hour with gander, with no step that is not in the README: set it up,
// have it looked over, ask, and put it into an editor. Afterwards the key is in one
// file, and nothing runs.
func TestNewcomer(t *testing.T) {
	_, err := exec.LookPath("npm")
	need(t, err == nil, "npm")
	n := newNewcomer(t)
	key := map[string]string{"LLM_API_KEY": canary}
	out := n.does(t, key, "setup", "--non-interactive", "--host", n.w.host, "--model", "scripted", "--store-key", "--install")
	if !strings.Contains(out, "installed ") || !strings.Contains(out, "wrote the key to ") {
		t.Errorf("setup said\n%s", out)
	}
	n.does(t, nil, "agent", "install", "opencode")
	if again := n.does(t, nil, "setup", "--non-interactive"); !strings.Contains(again, "is as it should be") {
		t.Errorf("setup a second time said\n%s", again)
	}
	checkDoctor(t, n.does(t, nil, "doctor", "--json"))
	for _, a := range agents {
		made := filepath.Join(n.project, a.name)
		prompt := script(t, a.runs("echo made > "+a.name), step{"text": "It is done."})
		answer := n.does(t, nil, "run", "--cwd", n.project, "--agent", a.name, "--approve", "all", "--format", "quiet", prompt)
		if answer != "It is done.\n" || n.w.read(made) != "made\n" {
			t.Errorf("%s answered %q", a.name, answer)
		}
	}
	n.editorStarts(t)
	n.keyIsInOnePlace(t)
	if left := n.does(t, nil, "sandbox", "list"); left != "no sandboxes\n" {
		t.Errorf("left are\n%s", left)
	}
}

// checkDoctor fails for everything that doctor would have a newcomer do.
func checkDoctor(t *testing.T, out string) {
	t.Helper()
	var report struct {
		Checks []struct{ ID, State, What, Next string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(report.Checks))
	for i, c := range report.Checks {
		ids[i] = c.ID
		if c.State != "ok" && c.State != "skip" {
			t.Errorf("doctor: %s %s: %s → %s", c.State, c.ID, c.What, c.Next)
		}
	}
	for _, id := range []string{"sandbox.files", "agent.goose", "agent.opencode", "model.goose", "model.opencode"} {
		if !slices.Contains(ids, id) {
			t.Errorf("doctor did not make the check %s", id)
		}
	}
}

// editorStarts puts the entry into an editor's file and starts what is written there.
func (n *newcomer) editorStarts(t *testing.T) {
	t.Helper()
	n.does(t, nil, "config", "zed", "--write")
	var settings struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"agent_servers"`
	}
	text := n.w.read(filepath.Join(n.env["HOME"], ".config", "zed", "settings.json"))
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		t.Fatal(err)
	}
	entry := settings.Servers["Gander"]
	e := startEditor(t, launch{command: append([]string{entry.Command}, entry.Args...), env: n.env, uid: n.w.uid, gid: n.w.gid, dir: n.w.dir})
	if got := e.initialize(); len(got.AuthMethods) == 0 {
		t.Error("the registry of agents wants a way to authenticate, and there is none")
	}
	e.session(n.project).prompt(script(t, step{"text": "Hello."})).done("end_turn")
	e.end()
}

// keyIsInOnePlace looks for the key in everything that was written.
func (n *newcomer) keyIsInOnePlace(t *testing.T) {
	t.Helper()
	var places []string
	err := filepath.WalkDir(n.w.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, "node_modules") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), canary) {
			places = append(places, filepath.Base(path))
			if info, err := d.Info(); err == nil && info.Mode().Perm() != 0o600 {
				t.Errorf("the key is in %s, which has mode %v", path, info.Mode())
			}
		}
		return err
	})
	if err != nil || !slices.Equal(places, []string{"model.key"}) {
		t.Errorf("the key is in %q, %v; want model.key alone", places, err)
	}
}

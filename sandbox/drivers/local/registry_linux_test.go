package local_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

func registered(t *testing.T) (*local.Driver, sandbox.Spec, string) {
	t.Helper()
	o := options(t)
	o.StateDir = t.TempDir()
	spec := sandboxtest.Spec(t, -1)
	spec.Labels = map[string]string{"agent": "goose"}
	return local.New(o), spec, o.StateDir
}

func TestRegistry(t *testing.T) {
	d, spec, state := registered(t)
	sb := sandboxtest.Create(t, d, spec)
	list, err := registry.List(state)
	if err != nil || len(list) != 1 {
		t.Fatalf("list %+v, %v", list, err)
	}
	r := list[0]
	if r.ID != spec.ID || r.Driver != "local" || r.Labels["agent"] != "goose" || r.WorkingDir != spec.WorkingDir {
		t.Errorf("record %+v", r)
	}
	if !r.Host.Alive() || !r.Supervisor.Alive() || r.Host.PID != os.Getpid() {
		t.Errorf("processes %+v %+v", r.Host, r.Supervisor)
	}
	if r.Supervisor.Start++; r.Supervisor.Alive() {
		t.Error("a process of the same number and another beginning counts as alive")
	}
	for path, want := range map[string]os.FileMode{"sandboxes": 0o700, "sandboxes/" + spec.ID: 0o700, "sandboxes/" + spec.ID + "/sandbox.json": 0o600} {
		if st, err := os.Stat(filepath.Join(state, path)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, st.Mode(), err)
		}
	}
	if cleared, err := local.GC(t.Context(), state); err != nil || len(cleared) != 0 {
		t.Errorf("GC cleared %q of a living gander: %v", cleared, err)
	}
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
	if list, _ := registry.List(state); len(list) != 0 {
		t.Errorf("after Close: %+v", list)
	}
}

func TestStop(t *testing.T) {
	d, spec, state := registered(t)
	sb := sandboxtest.Create(t, d, spec)
	mark := sandboxtest.Mark()
	sandboxtest.StartCommand(t, sb, sandbox.Command{Args: []string{"sleep", "1000"}, Env: sandboxtest.Env(mark)})
	for _, id := range []string{"", "../x", "unknown"} {
		if err := local.Stop(state, id); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("stopping %q: %v", id, err)
		}
	}
	if err := local.Stop(state, spec.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sb.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the sandbox goes on")
	}
	sandboxtest.Eventually(t, "its processes are gone", 10*time.Second, func() bool { return len(sandboxtest.Survivors(mark)) == 0 })
}

// TestGC clears away what a killed gander left, but not a home that is to be kept.
func TestGC(t *testing.T) {
	state := t.TempDir()
	dead := exec.CommandContext(t.Context(), "true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"gone", "kept"} {
		home := filepath.Join(state, "sandboxes", id, "home")
		if err := os.MkdirAll(home, 0o700); err != nil {
			t.Fatal(err)
		}
		record := `{"id":"` + id + `","machine":"` + registry.Machine() + `","host":{"pid":` + strconv.Itoa(dead.Process.Pid) + `,"start":1},"supervisor":{"pid":1,"start":1}}`
		if err := os.WriteFile(filepath.Join(state, "sandboxes", id, "sandbox.json"), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := registry.Keep(filepath.Join(state, "sandboxes", "kept")); err != nil {
		t.Fatal(err)
	}
	cleared, err := local.GC(t.Context(), state)
	if err != nil || len(cleared) != 2 {
		t.Errorf("cleared %q, %v", cleared, err)
	}
	if _, err := os.Stat(filepath.Join(state, "sandboxes", "gone")); !os.IsNotExist(err) {
		t.Errorf("the dead one's directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(state, "sandboxes", "kept", "home")); err != nil {
		t.Errorf("the home to keep: %v", err)
	}
}

func TestProjectRefused(t *testing.T) {
	o := options(t)
	o.StateDir = t.TempDir()
	d := local.New(o)
	for dir, want := range map[string]string{
		"/":                        "part of the system",
		"/usr":                     "part of the system",
		"/proc/self":               "part of the system",
		"/no/such":                 "no such file",
		"/etc/passwd":              "not a directory",
		filepath.Dir(o.StateDir):   "gander's own state",
		o.StateDir + "/../" + "./": "gander's own state",
	} {
		_, err := d.Create(t.Context(), sandbox.Spec{ID: "x", WorkingDir: dir})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("project %s: %v, want %q", dir, err, want)
		}
	}
}

// TestSymlinkedProject: both names of the project work inside.
func TestSymlinkedProject(t *testing.T) {
	spec := sandboxtest.Spec(t, -1)
	real := spec.WorkingDir
	spec.WorkingDir = filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, spec.WorkingDir); err != nil {
		t.Fatal(err)
	}
	sb := sandboxtest.Create(t, newLocal(t), spec)
	out, errs, _ := sandboxtest.Run(t, sb, "echo x > a; cat "+real+"/a "+spec.WorkingDir+"/a")
	if out != "x\nx\n" {
		t.Errorf("got %q %q", out, errs)
	}
}

// TestLinksBySymlinkedProject: closed and protected links lead to the project by both of its
// names.
func TestLinksBySymlinkedProject(t *testing.T) {
	spec := sandboxtest.Spec(t, -1)
	real := spec.WorkingDir
	spec.WorkingDir, spec.Rules = filepath.Join(t.TempDir(), "link"), &sandbox.Rules{}
	for link, target := range map[string]string{spec.WorkingDir: real, real + "/a.pem": spec.WorkingDir + "/shown", real + "/.vscode": spec.WorkingDir + "/ide"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{".gooseignore": "*.pem\n", "shown": "secret\n"} {
		if err := os.WriteFile(filepath.Join(real, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(real, "ide"), 0o755); err != nil {
		t.Fatal(err)
	}
	sb := sandboxtest.Create(t, newLocal(t), spec)
	if _, err := sb.(sandbox.RuleKeeper).ProtectNamed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, errs, _ := sandboxtest.Run(t, sb, "cat shown a.pem; echo x > ide/tasks.json && echo written"); out != "" {
		t.Errorf("got %q %q", out, errs)
	}
}

// TestKillSinceBesideForker: an old process that forks all the time keeps nothing
// alive that came after the mark, and nothing from ending.
func TestKillSinceBesideForker(t *testing.T) {
	sb := sandboxtest.Create(t, newLocal(t), sandboxtest.Spec(t, -1))
	forker := sandboxtest.Start(t, sb, "while :; do /bin/true; done")
	m, err := sb.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		mark := sandboxtest.Mark()
		sandboxtest.StartCommand(t, sb, sandbox.Command{Args: []string{"setsid", "sleep", "1000"}, Env: sandboxtest.Env(mark)})
		r, err := sb.KillSince(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if left := sandboxtest.Survivors(mark); len(left) > 0 {
			t.Errorf("survivors: %q", left)
		}
	}
	if err := forker.Signal(t.Context(), "KILL"); err != nil {
		t.Errorf("the forker has not survived: %v", err)
	}
}

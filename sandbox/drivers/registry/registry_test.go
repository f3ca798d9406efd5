package registry_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox/drivers/registry"
)

func TestRegister(t *testing.T) {
	state := t.TempDir()
	want := registry.Record{
		ID: "goose-1", Driver: "docker", Labels: map[string]string{"agent": "goose"}, WorkingDir: "/project",
		Created: time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC), Owner: registry.Self(), Container: "abc",
	}
	e, err := registry.Register(state, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := registry.Get(state, "goose-1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if list, err := registry.List(state); err != nil || len(list) != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
	st, err := os.Stat(filepath.Join(state, "sandboxes", "goose-1", "sandbox.json"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the record's file: %v %v", st, err)
	}
	e.Remove()
	if _, err := registry.Get(state, "goose-1"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("after Remove: %v", err)
	}
	if _, err := os.Stat(filepath.Join(state, "sandboxes", "goose-1")); err == nil {
		t.Error("the empty directory stays")
	}
}

func TestGetRefusesPaths(t *testing.T) {
	for _, id := range []string{"", "..", "../x", "a/b", "none"} {
		if _, err := registry.Get(t.TempDir(), id); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("Get(%q): %v", id, err)
		}
	}
}

func TestListWithoutState(t *testing.T) {
	if list, err := registry.List(filepath.Join(t.TempDir(), "none")); list != nil || err != nil {
		t.Errorf("got %v, %v", list, err)
	}
}

func TestClear(t *testing.T) {
	state := t.TempDir()
	r := registry.Record{ID: "x"}
	if _, err := registry.Register(state, r); err != nil {
		t.Fatal(err)
	}
	home := makeHome(t, state, "x")
	bury(t, state, "x")
	if removed, err := registry.Clear(state, r); err != nil || !removed {
		t.Fatal(removed, err)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("the home is left after Clear")
	}
	if _, err := registry.Get(state, "x"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("the record after Clear: %v", err)
	}
}

// TestClearLeavesWhatLives: a record may be older than who has the directory now, and that of
// a container is made of labels, of which an image may have any.
func TestClearLeavesWhatLives(t *testing.T) {
	state := t.TempDir()
	if _, err := registry.Register(state, registry.Record{ID: "x", Owner: registry.Self()}); err != nil {
		t.Fatal(err)
	}
	for _, labels := range []map[string]string{nil, {"keep": "1"}} {
		removed, err := registry.Clear(state, registry.Record{ID: "x", Owner: dead(t), Labels: labels})
		if err != nil || removed {
			t.Errorf("labelled %v: removed %v, %v", labels, removed, err)
		}
		if _, err := registry.Get(state, "x"); err != nil {
			t.Errorf("labelled %v: %v", labels, err)
		}
		if _, err := os.Stat(filepath.Join(state, "sandboxes", "x", "owner.json")); err != nil {
			t.Errorf("labelled %v, and nobody owns the directory any more: %v", labels, err)
		}
	}
}

// The id of a container's record is a label, and an image may have any.
func TestClearLeavesWhatIsNoSandbox(t *testing.T) {
	state := t.TempDir()
	home := makeHome(t, state, "x")
	for _, id := range []string{"", ".", "..", "/", ".trash", "../sandboxes/x", "x/home", home} {
		if removed, err := registry.Clear(state, registry.Record{ID: id}); err != nil || removed {
			t.Errorf("Clear(%q): %t, %v", id, removed, err)
		}
		if _, err := os.Stat(home); err != nil {
			t.Fatalf("after Clear(%q): %v", id, err)
		}
	}
}

func TestAlive(t *testing.T) {
	self := registry.Process(os.Getpid())
	if !self.Alive() {
		t.Error("this process is not alive")
	}
	if (registry.ProcessRef{PID: self.PID, Start: self.Start + 1}).Alive() {
		t.Error("a process of another time is alive")
	}
	if (registry.ProcessRef{}).Alive() {
		t.Error("nothing is alive")
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	if registry.Process(cmd.Process.Pid).Alive() {
		t.Error("an ended process is alive")
	}
}

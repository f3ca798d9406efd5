package registry_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/sandbox/drivers/registry"
)

// dead is an owner of this machine that has ended.
func dead(t *testing.T) registry.Owner {
	t.Helper()
	cmd := exec.Command("go", "version")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	return registry.Owner{Host: registry.ProcessRef{PID: cmd.Process.Pid, Start: 1}, Machine: registry.Machine()}
}

// disown makes o the owner of a sandbox's directory.
func disown(t *testing.T, state, id string, o registry.Owner) {
	t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "sandboxes", id, "owner.json"), body, 0o600); err != nil {
		t.Fatal(err)
	}
}

// bury makes a dead gander the owner.
func bury(t *testing.T, state, id string) {
	t.Helper()
	disown(t, state, id, dead(t))
}

func makeHome(t *testing.T, state, id string) string {
	t.Helper()
	home := filepath.Join(state, "sandboxes", id, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestDead(t *testing.T) {
	gone, here := dead(t), registry.Machine()
	for name, tt := range map[string]struct {
		owner registry.Owner
		want  bool
	}{
		"this process":          {registry.Self(), false},
		"an ended process":      {gone, true},
		"nobody":                {registry.Owner{}, false},
		"of another machine":    {registry.Owner{Host: gone.Host, Machine: "elsewhere"}, false},
		"of another user's box": {registry.Owner{Host: gone.Host, Machine: "a b c pid:[1]"}, false},
	} {
		if got := tt.owner.Dead(); got != tt.want {
			t.Errorf("%s: dead %v, want %v", name, got, tt.want)
		}
	}
	words := strings.Fields(here)
	if len(words) != 4 {
		t.Skipf("this system does not say which boot it is: %q", here)
	}
	earlier := registry.Owner{Host: registry.Self().Host, Machine: strings.Join([]string{words[0], words[1], "earlier", words[3]}, " ")}
	if !earlier.Dead() || earlier.Here() {
		t.Errorf("a process of an earlier boot is not dead")
	}
	renamed := registry.Owner{Host: gone.Host, Machine: strings.Join([]string{"renamed", words[1], words[2], words[3]}, " ")}
	if !renamed.Dead() {
		t.Errorf("the machine was only renamed")
	}
	beside := registry.Owner{Host: gone.Host, Machine: strings.Join([]string{words[0], words[1], words[2], "pid:[1]"}, " ")}
	if beside.Dead() || beside.Here() {
		t.Errorf("a process of another PID namespace cannot be known to be dead")
	}
}

func TestMachine(t *testing.T) {
	if first, second := registry.Machine(), registry.Machine(); first == "" || first != second {
		t.Errorf("machine %q, then %q", first, second)
	}
	if runtime.GOOS == "linux" && !strings.Contains(registry.Machine(), "pid:[") {
		t.Errorf("no PID namespace in %q", registry.Machine())
	}
}

// TestGC clears away homes without a record whose owner is dead, and nothing else.
func TestGC(t *testing.T) {
	state := t.TempDir()
	for _, id := range []string{"mine", "gone", "running", "foreign"} {
		if _, err := registry.Claim(state, id); err != nil {
			t.Fatal(err)
		}
		makeHome(t, state, id)
	}
	makeHome(t, state, "nobody's")
	if _, err := registry.Register(state, registry.Record{ID: "running"}); err != nil {
		t.Fatal(err)
	}
	bury(t, state, "gone")
	bury(t, state, "running") // for the driver: something may still run
	disown(t, state, "foreign", registry.Owner{Machine: "elsewhere"})
	makeHome(t, state, ".trash/1") // of one that was killed
	locked := filepath.Join(state, "sandboxes", "gone", "home", "cache")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	cleared, err := registry.GC(state)
	if err != nil || !slices.Equal(cleared, []string{"gone"}) {
		t.Errorf("cleared %q, %v", cleared, err)
	}
	for _, id := range []string{"mine", "running", "foreign", "nobody's"} {
		if _, err := os.Stat(filepath.Join(state, "sandboxes", id, "home")); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"gone", ".trash/1"} {
		if _, err := os.Stat(filepath.Join(state, "sandboxes", id)); err == nil {
			t.Errorf("%s is left", id)
		}
	}
}

// TestEndedSandboxKeepsItsOwner: its home stays while its gander lives, and is
// cleared away after that.
func TestEndedSandboxKeepsItsOwner(t *testing.T) {
	state := t.TempDir()
	e, err := registry.Register(state, registry.Record{ID: "x", Owner: registry.Self()})
	if err != nil {
		t.Fatal(err)
	}
	makeHome(t, state, "x")
	e.Remove()
	if _, err := os.Stat(filepath.Join(state, "sandboxes", "x", "owner.json")); err != nil {
		t.Errorf("nobody owns the home any more: %v", err)
	}
	if cleared, err := registry.GC(state); err != nil || len(cleared) > 0 {
		t.Errorf("cleared %q, %v", cleared, err)
	}
	bury(t, state, "x")
	if cleared, err := registry.GC(state); err != nil || len(cleared) != 1 {
		t.Errorf("cleared %q, %v", cleared, err)
	}
}

// TestClaimBeatsGC: what is claimed while others clear away is never removed.
func TestClaimBeatsGC(t *testing.T) {
	state := t.TempDir()
	gone := dead(t)
	var others sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := registry.GC(state); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 200 {
		id := fmt.Sprint("s", i)
		makeHome(t, state, id)
		disown(t, state, id, gone)
		dir, err := registry.Claim(state, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "home", "mine"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	others.Wait()
	for i := range 200 {
		if _, err := os.Stat(filepath.Join(state, "sandboxes", fmt.Sprint("s", i), "home", "mine")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeep: what is kept outlives its owner, but not the word that a sandbox runs
// in it, and is removed when that is asked for and nobody has claimed it since.
func TestKeep(t *testing.T) {
	state := t.TempDir()
	for _, id := range []string{"ended", "running", "mine"} {
		if _, err := registry.Register(state, registry.Record{ID: id, Owner: registry.Self()}); err != nil {
			t.Fatal(err)
		}
		makeHome(t, state, id)
		if err := registry.Keep(filepath.Join(state, "sandboxes", id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(state, "sandboxes", "ended", "sandbox.json")); err != nil {
		t.Fatal(err)
	}
	bury(t, state, "ended")
	bury(t, state, "running")
	if cleared, err := registry.GC(state); err != nil || len(cleared) > 0 {
		t.Errorf("cleared %q, %v", cleared, err)
	}
	if removed, err := registry.Clear(state, registry.Record{ID: "running", Owner: dead(t)}); err != nil || !removed {
		t.Errorf("%v, %v", removed, err)
	}
	kept, err := registry.Kept(state)
	if err != nil || !slices.Equal(kept, []string{"ended", "running"}) {
		t.Errorf("kept are %q, %v", kept, err)
	}
	if _, err := registry.Get(state, "running"); err == nil {
		t.Error("a sandbox still runs in what is kept")
	}
	for _, id := range []string{"ended", "running", "mine"} {
		if err := registry.RemoveKept(state, id); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(state, "sandboxes", id, "home")); (err == nil) != (id == "mine") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

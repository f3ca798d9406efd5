package orchestrator_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/acp"
)

// A full disk is a result for the planner, and shown to the person: the run goes on, and ends
// with its message.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes a small disk")
	}
	r := newRig(t, nil)
	disk := filepath.Join(r.dir, "artifacts")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	write := call("write_workspace_file", map[string]any{"path": "run/large.md", "content": strings.Repeat("x", 100<<10)})
	// A task is written down, too, but for a direct one.
	handed := call("delegate_to_agent", map[string]any{"targetAgentId": "goose", "taskKey": "large", "message": strings.Repeat("y", 100<<10)})
	direct := call("delegate_to_agent", map[string]any{"targetAgentId": "goose", "taskKey": "small", "message": "x", "mode": "direct"})
	r.want(acp.StopEndTurn, write, handed, direct, finish("The disk is full."))
	told := strings.Join(r.results(), "\n")
	for _, want := range []string{"This was not done: writing large.md: no space left on device", "This was not done: writing step-02-1-to-goose.md: no space left on device", "agent: goose, task: small\nended: done"} {
		if !strings.Contains(told, want) {
			t.Errorf("the planner was not told %q in\n%s", want, told)
		}
	}
	shown := strings.Join(r.shown(), "\n")
	if quoted, _ := json.Marshal("writing large.md: no space left on device"); !strings.Contains(shown, string(quoted)) || r.said() != "The disk is full." || len(r.team.given()) != 1 {
		t.Errorf("said %q, given %q, shown\n%s", r.said(), r.team.given(), shown)
	}
}

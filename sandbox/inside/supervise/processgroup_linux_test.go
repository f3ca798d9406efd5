package supervise

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listProcs lists every process, as macOS does.
func listProcs() ([]proc, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []proc
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if p, err := readProc(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// chain replaces itself by a child all the time, for a while at most. A leader that ends
// when the group is stopped has the system send it SIGHUP, which would be its end.
const chain = `trap '' HUP; export N=0 RUN='N=$((N+1)); [ $N -gt 20000 ] || sh -c "$RUN" & exit 0'; sh -c "$RUN" & `

// lead runs a script as the leader of a process group, or of a session, until it says
// "ready", and returns what it says behind that. Its processes can be known by the mark.
func lead(t *testing.T, attr *syscall.SysProcAttr, script string) (cmd *exec.Cmd, mark, said string) {
	t.Helper()
	mark = "GANDER_GROUP_TEST=" + t.Name() + strconv.FormatInt(time.Now().UnixNano(), 36)
	cmd = exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), mark)
	cmd.SysProcAttr = attr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		for _, pid := range marked(mark) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	said, ready := strings.CutPrefix(line, "ready")
	if err != nil || !ready {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, mark, said
}

// marked lists the live processes with a mark.
func marked(mark string) (pids []int) {
	all, _ := listProcs()
	for _, p := range all {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		if err == nil && !p.dead && strings.Contains(string(env), mark+"\x00") {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// left lists what lives of a group, which it stops: a chain is met then.
func left(leader int, mark string) []int {
	_ = unix.Kill(-leader, unix.SIGSTOP)
	return marked(mark)
}

func TestProcessGroupTerminates(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"plain", `sleep 1000 & echo ready; wait`},
		{"the leader has ended", `sleep 1000 >/dev/null & echo ready`},
		{"ignores signals", `trap '' TERM HUP INT; sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' & echo ready; wait`},
		{"stopped", `sleep 1000 & kill -STOP $!; echo ready; wait`},
		{"respawns", `respawn() { while :; do sleep 1000; done; }; respawn & respawn & echo ready; wait`},
		{"other groups and sessions", `setsid sleep 1000 & setsid sh -c 'setsid sleep 1000 & sleep 1000' & sleep 0.1; echo ready; wait`},
		{"many", `i=0; while [ $i -lt 50 ]; do setsid sleep 1000 & i=$((i+1)); done; echo ready; wait`},
		{"a chain", chain + `echo ready; wait`},
		{"chains without a leader", chain + chain + chain + `echo ready`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd, mark, _ := lead(t, &syscall.SysProcAttr{Setpgid: true}, tt.script)
			g := newProcessGroup(cmd.Process.Pid, listProcs)
			if len(g.members()) == 0 {
				t.Fatal("there is no member to kill")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for pass := 0; len(g.members()) > 0; pass++ {
				g.terminate()
				if err := pause(ctx, pass); err != nil {
					t.Fatalf("members after %d passes: %v", pass, g.members())
				}
			}
			if pids := left(cmd.Process.Pid, mark); len(pids) > 0 {
				t.Errorf("left: %v", pids)
			}
		})
	}
}

// TestProcessGroupOrphaned looks at a group whose leader ends while it is stopped, so
// that the others go on and are missed once more.
func TestProcessGroupOrphaned(t *testing.T) {
	cmd, mark, _ := lead(t, &syscall.SysProcAttr{Setpgid: true}, chain+`echo ready; exec sleep 1000`)
	looks := 0
	g := newProcessGroup(cmd.Process.Pid, func() ([]proc, error) {
		switch looks++; looks {
		case 1:
			return nil, nil
		case 2:
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return nil, nil
		}
		return listProcs()
	})
	if len(g.members()) == 0 {
		t.Errorf("a group that goes on was taken for ended after %d looks", looks)
	}
	// One look can miss the chain: a process that is being replaced has no environment.
	for end := time.Now().Add(10 * time.Second); len(left(cmd.Process.Pid, mark)) == 0; {
		if time.Now().After(end) {
			t.Fatal("nothing had gone on; this shows nothing")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestProcessGroupSpares kills what an agent has started since, and the agent goes on
// with what it had, each as it was.
func TestProcessGroupSpares(t *testing.T) {
	const agent = `sleep 1000 & stopped=$!; sleep 1000 & running=$!; sleep 0.1; kill -STOP $stopped; ` +
		chain + `setsid sleep 1000 & sleep 0.1; echo ready $stopped $running; wait $running`
	cmd, mark, said := lead(t, &syscall.SysProcAttr{Setpgid: true}, agent)
	old := map[int]bool{cmd.Process.Pid: false}
	var stopped, running int
	if _, err := fmt.Sscan(said, &stopped, &running); err != nil {
		t.Fatal(err)
	}
	old[stopped], old[running] = true, false
	if len(marked(mark)) <= len(old) {
		t.Fatal("there is nothing to kill")
	}
	newProcessGroup(cmd.Process.Pid, listProcs).cull(func(p proc) bool {
		_, spare := old[p.pid]
		return spare
	})
	for end := time.Now().Add(10 * time.Second); len(marked(mark)) > len(old) && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // what was killed dies
	}
	for _, pid := range marked(mark) {
		wantStopped, spared := old[pid]
		p, err := readProc(pid)
		if err != nil || !spared || p.stopped != wantStopped {
			t.Errorf("%d: spared %v, %+v (%v), want stopped %v", pid, spared, p, err, wantStopped)
		}
		delete(old, pid)
	}
	if len(old) != 0 {
		t.Errorf("killed and were to be spared: %v", old)
	}
}

func TestEndSession(t *testing.T) {
	cmd, mark, _ := lead(t, &syscall.SysProcAttr{Setsid: true},
		`set -m; sleep 1000 & sh -c 'trap "" TERM; sleep 1001' & `+chain+`sleep 0.1; echo ready; wait`)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if len(marked(mark)) < 3 {
		t.Fatal("the session has ended with its leader; this shows nothing")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := endSession(ctx, cmd.Process.Pid, listProcs); err != nil {
		t.Error(err)
	}
	if pids := left(cmd.Process.Pid, mark); len(pids) > 0 {
		t.Errorf("left: %v", pids)
	}
}

//go:build unix && !linux

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
)

// processGroup is a command's process group, and those of its descendants that
// were seen outside of it. One that leaves the group and its parents between two
// looks is not found again: that is the limit of this system.
type processGroup struct {
	leader int

	// mu guards seen.
	mu   sync.Mutex
	seen snapshot
}

func startGroup(cmd *exec.Cmd) (group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &processGroup{leader: cmd.Process.Pid, seen: snapshot{}}, nil
}

func (g *processGroup) signal(name string) error {
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		return fmt.Errorf("there is no signal %q", name)
	}
	return unix.Kill(-g.leader, sig)
}

func (g *processGroup) members() []proc {
	all, err := allProcs()
	if err != nil {
		return g.unlisted()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	byPID := map[int]proc{}
	for _, p := range all {
		byPID[p.pid] = p
	}
	var found []proc
	for _, p := range all {
		if !p.dead && g.owns(p, byPID) {
			g.seen[p.procID] = struct{}{}
			found = append(found, p)
		}
	}
	return found
}

// owns says whether p is in the group, was seen below it, or descends from such a one.
func (g *processGroup) owns(p proc, byPID map[int]proc) bool {
	for range len(byPID) {
		if _, seen := g.seen[p.procID]; seen || p.group == g.leader || p.pid == g.leader {
			return true
		}
		up, ok := byPID[p.parent]
		if !ok || p.parent <= 1 {
			return false
		}
		p = up
	}
	return false
}

// unlisted is for a system whose processes cannot be listed: the group is one thing.
func (g *processGroup) unlisted() []proc {
	if unix.Kill(-g.leader, 0) != nil {
		return nil
	}
	return []proc{{procID: procID{pid: g.leader}, group: g.leader}}
}

func (g *processGroup) terminate() {
	for _, p := range g.members() {
		killProc(p.procID)
	}
}

func (g *processGroup) close() {}

func killProc(p procID) { _ = unix.Kill(p.pid, unix.SIGKILL) }

func exitStatus(s *os.ProcessState) sandbox.ExitStatus {
	st := sandbox.ExitStatus{Code: s.ExitCode(), Usage: sandbox.Usage{User: s.UserTime(), System: s.SystemTime()}}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		st.Code = 128 + int(ws.Signal())
		st.Signal = unix.SignalName(ws.Signal())[len("SIG"):]
	}
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		st.Usage.MaxRSS = maxRSS(u)
	}
	return st
}

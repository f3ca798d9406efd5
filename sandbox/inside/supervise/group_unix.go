//go:build unix && !linux

package supervise

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
)

func startGroup(cmd *exec.Cmd) (group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return newProcessGroup(cmd.Process.Pid, allProcs), nil
}

func (g *processGroup) signal(name string) error {
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		return fmt.Errorf("there is no signal %q", name)
	}
	return unix.Kill(-g.leader, sig)
}

func (g *processGroup) close() {}

// EndSession kills what a supervisor, which led a session of its own and has just ended,
// has left in it: something inside may have killed or stopped it. It returns when nothing
// lives. What has made a session of its own is not found.
func EndSession(ctx context.Context, supervisor int) error {
	return endSession(ctx, supervisor, allProcs)
}

func killProc(p procID) { signalProc(p, unix.SIGKILL) }

func signalProc(p procID, sig unix.Signal) { _ = unix.Kill(p.pid, sig) }

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

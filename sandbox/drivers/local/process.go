package local

import (
	"io"
	"os/exec"
	"runtime"
	"time"

	"gander.dev/gander/sandbox/inside/supervise"
)

// supervisorProcess is the supervisor as a child of this process.
type supervisorProcess struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been waited for
}

// run starts cmd on a thread that stays as long as the process does: on Linux a
// child can be tied to the life of the thread that started it.
func run(cmd *exec.Cmd) (*supervisorProcess, error) {
	p := &supervisorProcess{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := supervise.Relaxed(cmd.Start)
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// end waits for the supervisor, whose stream has been closed, and kills it when
// it takes too long.
func (p *supervisorProcess) end(patience time.Duration) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// command is what starts a supervisor, apart from its stream.
func command(exe, verb string, stderr io.Writer) *exec.Cmd {
	return &exec.Cmd{
		Path: exe, Args: []string{"gander", verb}, Env: []string{}, Stderr: stderr, WaitDelay: 2 * time.Second,
	}
}

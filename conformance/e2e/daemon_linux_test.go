package e2e

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A daemon is a Docker daemon of a test's own, which may be killed: it has its own
// containers and images, and no network.
type daemon struct {
	t     *testing.T
	dir   string
	cmd   *exec.Cmd
	said  *bytes.Buffer
	ended chan struct{}
}

// startDaemon starts a daemon with the image of an agent. Until the test ends, it is the
// one that gander and the docker command use.
func startDaemon(t *testing.T, agent string) *daemon {
	t.Helper()
	needDocker(t)
	_, err := exec.LookPath("dockerd")
	need(t, err == nil, "dockerd (.ci/docker)")
	dir, err := os.MkdirTemp("", "dockerd-") // its sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: dir}
	t.Cleanup(d.remove)
	d.start()
	ctx := soon(t)
	save := exec.CommandContext(ctx, "docker", "save", "goku-sandbox-"+agent+":latest")
	load := exec.CommandContext(ctx, "docker", "--host", d.host(), "load", "--quiet")
	image, err := save.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	load.Stdin = image
	if err := save.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := load.CombinedOutput()
	if err != nil {
		t.Fatalf("loading the image: %v: %s", err, out)
	}
	if err := save.Wait(); err != nil {
		t.Fatalf("saving the image: %v", err)
	}
	t.Setenv("DOCKER_HOST", d.host())
	return d
}

func (d *daemon) host() string { return "unix://" + filepath.Join(d.dir, "socket") }

// start starts it, again if need be, and waits until it answers.
func (d *daemon) start() {
	t := d.t
	t.Helper()
	in := func(name string) string { return filepath.Join(d.dir, name) }
	d.said, d.ended = &bytes.Buffer{}, make(chan struct{})
	d.cmd = exec.Command("dockerd", "--host", d.host(), "--data-root", in("data"), "--exec-root", in("run"), "--pidfile", in("pid"),
		"--bridge=none", "--iptables=false", "--ip-forward=false")
	// A daemon without a bridge removes docker0 where it finds it: in a network of its own it finds none.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	words, err := d.cmd.StderrPipe()
	// Of one that was killed: the numbers may be another's by now, or a dead one's.
	for _, stale := range []string{"pid", "run/containerd/containerd.pid"} {
		if err == nil {
			err = os.RemoveAll(in(stale))
		}
	}
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func(cmd *exec.Cmd, said *bytes.Buffer, ended chan struct{}) {
		defer close(ended)
		for s := bufio.NewScanner(words); s.Scan(); { // ends with it and its containerd
			said.WriteString(s.Text() + "\n")
		}
		_ = cmd.Wait() // how it ended is the test's doing
	}(d.cmd, d.said, d.ended)
	eventually(t, "the test's own Docker daemon to answer", func() bool {
		select {
		case <-d.ended:
			t.Fatalf("dockerd has ended: %s", d.said)
		default:
		}
		return exec.CommandContext(soon(t), "docker", "--host", d.host(), "version").Run() == nil
	})
}

// end ends it with a signal.
func (d *daemon) end(signal os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.ended:
	case <-soon(d.t).Done():
		d.t.Fatalf("dockerd does not end on the signal %v", signal)
	}
}

// remove ends it with everything that it has started and mounted.
func (d *daemon) remove() {
	t := d.t
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		<-d.ended
	}
	gone(t, patience, func() []proc {
		all := slices.DeleteFunc(processes(t), func(q proc) bool { return !strings.Contains(q.args, d.dir+"/") })
		if t.Failed() { // a container may be left, and would stay for good
			for _, q := range all {
				q.kill(t)
			}
		}
		return all
	})
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, d.dir+"/") {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	}
	if err := os.RemoveAll(d.dir); err != nil {
		t.Errorf("a daemon leaves files that cannot be removed: %v", err)
	}
	if t.Failed() {
		t.Logf("dockerd: %s", d.said)
	}
}

// A Docker daemon that ends in an iteration, by itself or not, takes the sandbox with it.
// When there is one again the run goes on by itself, with all its events and the same
// keeper; nothing is left of what the daemon had.
func TestLoopDaemonRestarts(t *testing.T) {
	c := cell{agents[0], drivers[1]}
	d := startDaemon(t, c.agent.name)
	w := newWorld(t, c, 0)
	p := w.serve(t)
	work := w.mkdir("work")
	in, goOn := filepath.Join(work, "in"), filepath.Join(work, "go")
	r := p.loop(c, script(t, c.runs("while [ ! -e go ]; do touch in; sleep 0.1; done"), says("done with it.")), map[string]any{"workspace": work})
	keeper := r.keeper()
	for _, signal := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		_, _ = os.Remove(goOn), os.Remove(in) // the next iteration waits for us
		eventually(t, "an iteration to be in its command", func() bool { return exists(in) })
		begun, inside := r.open(), r.inside()
		if len(inside) < 3 {
			t.Errorf("in the container are only %v", inside)
		}
		d.end(signal)
		gone(t, patience, stillAlive(inside)) // also without anybody who could kill the container
		w.write(work, "go", "")
		d.start()
		end := r.await("the end of the iteration", begun.Seq, func(e told) bool { return e.Type == "iteration_end" })
		if end.Iteration != begun.Iteration {
			t.Errorf("after %v iteration %d ends as %+v", signal, begun.Iteration, end)
		}
		next := r.await("another iteration", end.Seq, func(e told) bool { return e.Type == "iteration_start" })
		r.await("what it says", next.Seq, func(e told) bool { return e.Type == "text" })
		r.await("its end", next.Seq, completed)
		if !keeper.alive() {
			t.Errorf("the keeper has ended with %v", signal)
		}
		if n := len(r.containers()); n != 1 {
			t.Errorf("after %v there are %d containers", signal, n)
		}
	}
	inside := r.inside()
	r.order("stop")
	r.await("the end", 0, func(e told) bool { return e.State == "stopped" })
	gone(t, patience, p.keepers)
	gone(t, patience, stillAlive(append(inside, keeper)))
	if n := len(r.containers()); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	r.checkWhole()
}

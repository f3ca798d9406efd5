//go:build linux

package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// childEnv makes the test binary a gander that a test kills: the state
// directory, the supervisor, the project and a mark, separated by colons.
const childEnv = "GANDER_TEST_CHILD"

// escape leaves processes behind in all the usual ways.
const escape = `trap '' TERM HUP INT; setsid sleep 1000 & nohup sleep 1000 >/dev/null 2>&1 & (setsid sh -c 'sleep 1000 & exit 0' &); sleep 0.1; echo ready; wait`

func runChild(args string) int {
	f := strings.SplitN(args, ":", 5)
	o := docker.Options{
		Host: os.Getenv("DOCKER_HOST"), StateDir: f[0], Executable: f[1], Image: func(string) string { return testImage },
	}
	home := filepath.Join(f[0], "sandboxes", f[3], "home")
	err := os.MkdirAll(home, 0o700)
	if err == nil {
		err = childSandbox(o, sandbox.Spec{ID: f[3], WorkingDir: f[2], Home: home}, f[4])
	}
	fmt.Fprintln(os.Stderr, "the child:", err)
	return 1
}

func childSandbox(o docker.Options, spec sandbox.Spec, mark string) error {
	sb, err := docker.New(o).Create(context.Background(), spec)
	if err != nil {
		return err
	}
	p, err := sb.Start(context.Background(), sandbox.Command{Args: []string{"/bin/sh", "-c", escape}, Env: sandboxtest.Env(mark)})
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Print(line)
	<-sb.Done()
	return errors.New("the sandbox ended")
}

// startChild returns when its sandbox is full of processes.
func startChild(t *testing.T, exe, id, project, mark string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{fixture.state, exe, project, id, mark}, ":"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return cmd
}

// pidNamespace is the PID namespace of a container, seen from outside; empty for
// a user who may not see it.
func pidNamespace(t *testing.T, cli *client.Client, id string) string {
	t.Helper()
	c, err := cli.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", c.Container.State.Pid))
	if err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	return ns
}

// inNamespace lists the processes of a PID namespace. The number of a namespace that
// is gone is soon another's, so the processes are what is looked for afterwards.
func inNamespace(ns string) (processes []registry.ProcessRef) {
	if ns == "" {
		return nil
	}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, l := range links {
		got, _ := os.Readlink(l)
		if pid, err := strconv.Atoi(strings.Split(l, "/")[2]); err == nil && got == ns {
			processes = append(processes, registry.Process(pid))
		}
	}
	return processes
}

// gone says whether the daemon does not know a container any more.
func gone(t *testing.T, cli *client.Client, id string) bool {
	t.Helper()
	_, err := cli.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	return errdefs.IsNotFound(err)
}

// TestKilled kills gander: within 3 s nothing is left but a record, which GC
// removes with the home.
func TestKilled(t *testing.T) {
	needDaemon(t)
	for _, tt := range []struct {
		name, exe string
		signal    unix.Signal
	}{
		{"SIGKILL", fixture.exe, unix.SIGKILL},
		{"SIGTERM", fixture.exe, unix.SIGTERM},
		{"SIGKILL attached", fixture.plain, unix.SIGKILL},
	} {
		t.Run(tt.name, func(t *testing.T) { testKilled(t, tt.exe, tt.signal) })
	}
}

func testKilled(t *testing.T, exe string, signal unix.Signal) {
	spec, mark, cli := sandboxtest.Spec(t, stranger), sandboxtest.Mark(), engine(t)
	child := startChild(t, exe, spec.ID, spec.WorkingDir, mark)
	id := container(t, spec.ID)
	ns := pidNamespace(t, cli, id)
	if n := len(sandboxtest.Survivors(mark)); n < 4 && ns != "" {
		t.Fatalf("only %d processes are to be survived", n)
	}
	inside := inNamespace(ns)
	if n := len(inside); n < 7 && ns != "" {
		t.Fatalf("only %d processes in the container", n)
	}
	begin := time.Now()
	if err := child.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	sandboxtest.Eventually(t, "the container is gone", 3*time.Second, func() bool { return gone(t, cli, id) })
	t.Logf("gone after %v", time.Since(begin))
	if left := sandboxtest.Survivors(mark); len(left) > 0 {
		t.Errorf("survivors: %q", left)
	}
	if left := slices.DeleteFunc(inside, func(p registry.ProcessRef) bool { return !p.Alive() }); len(left) > 0 {
		t.Errorf("processes of the container survive: %v", left)
	}
	testGC(t, spec.ID)
}

func testGC(t *testing.T, id string) {
	t.Helper()
	if _, err := registry.Get(fixture.state, id); err != nil {
		t.Errorf("the killed gander's record: %v", err)
	}
	cleared, err := docker.GC(t.Context(), options())
	if err != nil || len(cleared) != 1 || cleared[0] != id {
		t.Errorf("cleared %q, %v", cleared, err)
	}
	if _, err := os.Stat(filepath.Join(fixture.state, "sandboxes", id)); err == nil {
		t.Error("the directory is left")
	}
}

// TestGC leaves what is in use and removes a container that was never started.
func TestGC(t *testing.T) {
	needDaemon(t)
	spec := sandboxtest.Spec(t, stranger)
	sb := sandboxtest.Create(t, newDriver(t), spec)
	here := machineOf(t, spec.ID)
	createDead(t, "goku-sandbox-dead-"+spec.ID, "dead", here)
	committed := createDead(t, "not-"+spec.ID, "committed", here)
	foreign := registry.Record{
		ID: "foreign", Driver: docker.Name, Container: createDead(t, "goku-sandbox-foreign-"+spec.ID, "foreign", "elsewhere"), Owner: registry.Owner{Machine: "elsewhere"},
	}
	if _, err := registry.Register(fixture.state, foreign); err != nil {
		t.Fatal(err)
	}
	cleared, err := docker.GC(t.Context(), options())
	if err != nil || len(cleared) != 1 || cleared[0] != "dead" {
		t.Errorf("cleared %q, %v", cleared, err)
	}
	if gone(t, engine(t), committed) {
		t.Error("a container of somebody's, of an image that a sandbox was made into, is gone")
	} else if _, err := engine(t).ContainerRemove(t.Context(), committed, client.ContainerRemoveOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := registry.Get(fixture.state, "foreign"); err != nil {
		t.Errorf("the directory of another machine's sandbox: %v", err)
	}
	if out, _, _ := sandboxtest.Run(t, sb, "echo alive"); out != "alive\n" {
		t.Errorf("after GC: %q", out)
	}
	if err := docker.Stop(t.Context(), options(), "foreign"); err != nil {
		t.Error(err)
	}
	if cleared, err := docker.GC(t.Context(), options()); err != nil || len(cleared) != 0 {
		t.Errorf("of another machine's gander it cleared %q, %v", cleared, err)
	}
	if err := os.RemoveAll(filepath.Join(fixture.state, "sandboxes", "foreign")); err != nil {
		t.Fatal(err)
	}
}

// createDead makes a container that is labelled as a dead gander's and returns its id.
func createDead(t *testing.T, name, id, machine string) string {
	t.Helper()
	res, err := engine(t).ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: testImage, Name: name, Config: &api.Config{
		Cmd: []string{"true"},
		Labels: map[string]string{
			"gander.id": id, "gander.owner": "1:1", "gander.home": fixture.state, "gander.machine": machine,
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return res.ID
}

// TestLeftContainerIsTakenDown: a new sandbox of a session gets the name that the
// container of a killed gander has, but not that of one whose gander may live.
func TestLeftContainerIsTakenDown(t *testing.T) {
	needDaemon(t)
	cli := engine(t)
	for machine, second := range map[string]bool{registry.Machine(): false, "elsewhere": true} {
		spec := sandboxtest.Spec(t, -1)
		spec.Labels = map[string]string{"agent": "goose", "session": spec.ID}
		name := "goku-sandbox-goose-" + spec.ID
		res, err := cli.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: testImage, Name: name, Config: &api.Config{
			Cmd: []string{"sleep", "1000"},
			Labels: map[string]string{
				"gander.id": "left", "gander.owner": "1:1", "gander.home": fixture.state, "gander.machine": machine,
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cli.ContainerStart(t.Context(), res.ID, client.ContainerStartOptions{}); err != nil {
			t.Fatal(err)
		}
		sandboxtest.Create(t, newDriver(t), spec)
		c, err := cli.ContainerInspect(t.Context(), container(t, spec.ID), client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Container.Name != "/"+name; got != second || gone(t, cli, res.ID) == second {
			t.Errorf("left by a gander of %q: the new container is %s", machine, c.Container.Name)
		}
		if second {
			if err := docker.Stop(t.Context(), options(), "left"); err != nil {
				t.Error(err)
			}
		}
	}
}

func machineOf(t *testing.T, id string) string {
	t.Helper()
	c, err := engine(t).ContainerInspect(t.Context(), container(t, id), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Container.Config.Labels["gander.machine"]
}

// TestStop ends a sandbox from elsewhere: its gander notices.
func TestStop(t *testing.T) {
	needDaemon(t)
	spec, mark := sandboxtest.Spec(t, stranger), sandboxtest.Mark()
	spec.Labels = map[string]string{"agent": "goose", "session": spec.ID}
	sb := sandboxtest.Create(t, newDriver(t), spec)
	sandboxtest.Start(t, sb, escape, mark)
	list, err := docker.List(t.Context(), options())
	if err != nil || len(list) != 1 || list[0].Labels["session"] != spec.ID || list[0].WorkingDir != spec.WorkingDir || !list[0].Host.Alive() {
		t.Errorf("listed %+v, %v", list, err)
	}
	r, err := registry.Get(fixture.state, spec.ID)
	if err != nil || !r.Supervisor.Alive() || r.Container != list[0].Container {
		t.Errorf("the record %+v, %v", r, err)
	}
	if err := docker.Stop(t.Context(), options(), "nothing"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("stopping what is not there: %v", err)
	}
	if err := docker.Stop(t.Context(), options(), spec.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sb.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the stopped sandbox is not done")
	}
	if left := sandboxtest.Survivors(mark); len(left) > 0 || r.Supervisor.Alive() {
		t.Errorf("survivors: %q", left)
	}
	if _, err := registry.Get(fixture.state, spec.ID); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("the record of a stopped sandbox: %v", err)
	}
	if _, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("starting in a stopped sandbox: %v", err)
	}
}

// TestCloseStuck closes a sandbox whose supervisor does not react.
func TestCloseStuck(t *testing.T) {
	needDaemon(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can stop the supervisor")
	}
	spec, mark, cli := sandboxtest.Spec(t, stranger), sandboxtest.Mark(), engine(t)
	sb := sandboxtest.Create(t, newDriver(t), spec)
	sandboxtest.Start(t, sb, "sleep 1000", mark)
	id := container(t, spec.ID)
	c, err := cli.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(c.Container.State.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
	if left := sandboxtest.Survivors(mark); len(left) > 0 || !gone(t, cli, id) {
		t.Errorf("after Close: %q", left)
	}
}

// TestCreateCancelled gives up at every point: no container stays.
func TestCreateCancelled(t *testing.T) {
	needDaemon(t)
	d := newDriver(t)
	for patience := time.Millisecond; patience < time.Second; patience = patience * 3 / 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		sb, err := d.Create(ctx, sandboxtest.Spec(t, -1))
		cancel()
		if err == nil {
			_ = sb.Close()
		}
		// A request that was cancelled under way may have arrived all the same.
		sandboxtest.Eventually(t, "no container is left", 10*time.Second, func() bool {
			list, err := docker.List(t.Context(), options())
			return err == nil && len(list) == 0
		})
	}
}

func goBuild(t *testing.T, exe, source string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", exe, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v: %s", source, err, out)
	}
}

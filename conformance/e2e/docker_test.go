package e2e

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Docker is looked at from outside by its own command: gander's driver is what is
// being judged.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	ctx, done := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // it also runs when a test is over
	defer done()
	cmd := exec.CommandContext(ctx, "docker", args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}

func needDocker(t *testing.T) {
	t.Helper()
	needRoot(t) // to see the processes of containers
	_, err := exec.LookPath("docker")
	if err == nil {
		err = exec.CommandContext(soon(t), "docker", "version").Run()
	}
	need(t, err == nil, "a Docker daemon (.ci/docker)")
	for _, a := range agents {
		image := "goku-sandbox-" + a.name + ":latest"
		err := exec.CommandContext(soon(t), "docker", "image", "inspect", image).Run()
		need(t, err == nil, "the image "+image+" (make images)")
	}
}

// dockerEnv is what leads gander to the daemon.
func dockerEnv() map[string]string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return map[string]string{"DOCKER_HOST": host}
	}
	return nil
}

// dockerGroup is the group of the daemon's socket.
func dockerGroup(t *testing.T) int {
	t.Helper()
	socket := "/var/run/docker.sock"
	if u, err := url.Parse(os.Getenv("DOCKER_HOST")); err == nil && u.Scheme == "unix" {
		socket = u.Path
	}
	return groupOf(t, socket)
}

func dockerContainers(t *testing.T, home string) []string {
	t.Helper()
	return strings.Fields(docker(t, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label=gander.home="+home))
}

func dockerRoots(t *testing.T, containers []string) []int {
	t.Helper()
	var pids []int
	for word := range strings.FieldsSeq(docker(t, append([]string{"inspect", "--format", "{{.State.Pid}}"}, containers...)...)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func dockerInspect(t *testing.T, containers []string) string {
	t.Helper()
	return docker(t, append([]string{"inspect"}, containers...)...)
}

//go:build linux

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// stranger is a user that no machine has.
const stranger = 12345

// inRootsToo runs a test for root's project where tests run everywhere.
func inRootsToo(t *testing.T, test func(t *testing.T)) {
	if sandboxtest.Everywhere() {
		t.Run("root's project", test)
	}
}

func TestDriver(t *testing.T) {
	needDaemon(t)
	inRootsToo(t, func(t *testing.T) { sandboxtest.TestDriver(t, newDriver, -1) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestDriver(t, newDriver, stranger) })
	t.Run("attached", func(t *testing.T) { sandboxtest.TestDriver(t, newAttached, stranger) })
}

func TestKills(t *testing.T) {
	needDaemon(t)
	inRootsToo(t, func(t *testing.T) { sandboxtest.TestKills(t, newDriver, -1, nothingLeft) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestKills(t, newDriver, stranger, nothingLeft) })
	t.Run("attached", func(t *testing.T) { sandboxtest.TestKills(t, newAttached, stranger, nothingLeft) })
}

func TestReadOnly(t *testing.T) {
	needDaemon(t)
	sandboxtest.TestReadOnly(t, newDriver, stranger)
}

func TestWrites(t *testing.T) {
	sandboxtest.OnlyEverywhere(t)
	needDaemon(t)
	t.Run("root's project", func(t *testing.T) { sandboxtest.TestWrites(t, newDriver, -1) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestWrites(t, newAttached, stranger) })
}

func TestConsumption(t *testing.T) {
	needDaemon(t)
	sandboxtest.TestConsumption(t, newDriver, stranger)
}

func TestCloseGit(t *testing.T) {
	needDaemon(t)
	sandboxtest.TestCloseGit(t, newDriver, -1)
}

func TestOrdinaryWork(t *testing.T) {
	sandboxtest.OnlyEverywhere(t)
	needDaemon(t)
	t.Run("root's project", func(t *testing.T) { sandboxtest.TestOrdinaryWork(t, newDriver, -1) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestOrdinaryWork(t, newDriver, stranger) })
}

func TestDownloads(t *testing.T) {
	needDaemon(t)
	inRootsToo(t, func(t *testing.T) { sandboxtest.TestDownloads(t, newDriver, -1) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestDownloads(t, newAttached, stranger) })
}

func TestHideGit(t *testing.T) {
	sandboxtest.OnlyEverywhere(t)
	needDaemon(t)
	t.Run("root's project", func(t *testing.T) { sandboxtest.TestHideGit(t, newDriver, -1, false) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestHideGit(t, newAttached, stranger, true) })
	t.Run("around it", func(t *testing.T) { sandboxtest.TestHideGitAround(t, newAttached, stranger) })
}

func TestHostEnvironment(t *testing.T) {
	needDaemon(t)
	sandboxtest.TestHostEnvironment(t, newDriver, -1)
}

func TestRulesFollow(t *testing.T) {
	needDaemon(t)
	sandboxtest.TestRulesFollow(t, newDriver, -1)
}

func TestRules(t *testing.T) {
	needDaemon(t)
	t.Run("root's project", func(t *testing.T) { sandboxtest.TestRules(t, newDriver, -1) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestRules(t, newAttached, stranger) })
}

func TestIsolation(t *testing.T) {
	needDaemon(t)
	t.Run("root's project", func(t *testing.T) { sandboxtest.TestIsolation(t, newDriver, -1) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestIsolation(t, newAttached, stranger) })
}

// TestSocket: the stream is a socket, of which nothing stays on the host, or else
// the container's attached streams.
func TestSocket(t *testing.T) {
	needDaemon(t)
	for name, tt := range map[string]struct {
		driver func(*testing.T) sandbox.Driver
		verb   string
	}{"socket": {newDriver, docker.Verb}, "attached": {newAttached, supervise.Verb}} {
		t.Run(name, func(t *testing.T) {
			d := tt.driver(t)
			for range 2 {
				spec := sandboxtest.Spec(t, stranger)
				sb := sandboxtest.Create(t, d, spec)
				c, err := engine(t).ContainerInspect(t.Context(), container(t, spec.ID), client.ContainerInspectOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := c.Container.Config.Entrypoint; got[1] != tt.verb {
					t.Errorf("the first process is %q", got)
				}
				if _, err := os.Stat(filepath.Join(fixture.state, "sandboxes", spec.ID, "stream")); err == nil {
					t.Error("the socket's directory is left")
				}
				if out, _, _ := sandboxtest.Run(t, sb, "ls -A /run/gander/stream 2>/dev/null"); out != "" {
					t.Errorf("inside is still %q", out)
				}
			}
		})
	}
}

// TestSealed looks from inside for what a container must not have.
func TestSealed(t *testing.T) {
	needDaemon(t)
	for name, owner := range map[string]int{"root's project": -1, "user's project": stranger} {
		t.Run(name, func(t *testing.T) {
			spec := sandboxtest.Spec(t, owner)
			canary := filepath.Join(filepath.Dir(spec.WorkingDir), "canary")
			if err := os.WriteFile(canary, []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
			sb := sandboxtest.Create(t, newDriver(t), spec)
			for script, want := range map[string]string{
				"echo alive > here && cat here":       "alive\n",
				"cat " + canary + " 2>/dev/null":      "",
				"ls " + filepath.Dir(spec.WorkingDir): "project\n",
				"for d in / /usr /etc /home /proc/sys/kernel; do touch $d/x && echo $d; done 2>/dev/null": "",
				"cd /tmp && cp /bin/true . && ./true && echo runs":                                        "runs\n",
				"touch /var/tmp/x /dev/shm/x && echo written":                                             "written\n",
				"grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -d '\t' | tr '\n' ' '":                "CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1 ",
				"tail -n +3 /proc/net/dev | cut -d: -f1":                                                  "    lo\n",
				"ulimit -c":                                                                               "0\n",
				"hostname":                                                                                "gander\n",
				"ls -d /run/docker.sock /var/run/docker.sock 2>/dev/null":                                 "",
				"echo kept > " + sb.Info().Home + "/file && cat " + sb.Info().Home + "/file":              "kept\n",
			} {
				if out, errs, _ := sandboxtest.Run(t, sb, script); out != want {
					t.Errorf("%s: %q %q, want %q", script, out, errs, want)
				}
			}
			if b, _ := os.ReadFile(filepath.Join(spec.Home, "file")); string(b) != "kept\n" {
				t.Errorf("the home holds %q", b)
			}
			checkOwner(t, filepath.Join(spec.WorkingDir, "here"), max(owner, os.Geteuid()))
		})
	}
}

// TestHealthcheck: an image's own check does not run in a sandbox.
func TestHealthcheck(t *testing.T) {
	needDaemon(t)
	const image = "gander-test-health:latest"
	buildImage(t, image, "FROM "+testImage+"\nHEALTHCHECK --interval=1s CMD touch /tmp/checked\n")
	o := logged(t)
	o.Image = func(string) string { return image }
	spec := sandboxtest.Spec(t, -1)
	sandboxtest.Create(t, docker.New(o), spec)
	c, err := engine(t).ContainerInspect(t.Context(), container(t, spec.ID), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h := c.Container.Config.Healthcheck; h == nil || len(h.Test) != 1 || h.Test[0] != "NONE" {
		t.Errorf("health check %+v", h)
	}
}

// TestImageEnvironment: what an image sets is what commands start from.
func TestImageEnvironment(t *testing.T) {
	needDaemon(t)
	const image = "gander-test-environment:latest"
	buildImage(t, image, "FROM "+testImage+"\nENV TOOLS=/opt/tools PATH=/opt/tools/bin:/usr/bin:/bin\n"+
		"RUN mkdir -p /opt/tools/bin && ln -s /bin/true /opt/tools/bin/quack\n")
	o := logged(t)
	o.Image = func(string) string { return image }
	sb := sandboxtest.Create(t, docker.New(o), sandboxtest.Spec(t, -1))
	info := sb.Info()
	if !info.Isolated || info.Image != image {
		t.Errorf("isolated %v, image %q", info.Isolated, info.Image)
	}
	p := sandboxtest.StartCommand(t, sb, sandbox.Command{
		Args: []string{"sh", "-c", "quack && echo $TOOLS $PATH"}, Env: info.Environment([]string{"PATH=/opt/mine:/bin"}),
	})
	out, err := io.ReadAll(p.Stdout())
	if want := "/opt/tools /opt/tools/bin:/usr/bin:/bin:/opt/mine\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// buildImage builds an image that is removed with the test.
func buildImage(t *testing.T, name, dockerfile string) {
	t.Helper()
	cmd := exec.Command("docker", "build", "-t", name, "-")
	cmd.Stdin, cmd.Env = strings.NewReader(dockerfile), append(os.Environ(), "DOCKER_BUILDKIT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v: %s", name, err, out)
	}
	cli := engine(t)
	t.Cleanup(func() {
		_, _ = cli.ImageRemove(context.WithoutCancel(t.Context()), name, client.ImageRemoveOptions{Force: true})
	})
}

func checkOwner(t *testing.T, path string, want int) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if int(st.Uid) != want {
		t.Errorf("%s belongs to uid %d, want %d", path, st.Uid, want)
	}
}

func TestRootIsToldSo(t *testing.T) {
	needDaemon(t)
	if os.Geteuid() != 0 {
		t.Skip("only root has projects of root")
	}
	for owner, want := range map[int]bool{-1: true, stranger: false} {
		info := sandboxtest.Create(t, newDriver(t), sandboxtest.Spec(t, owner)).Info()
		if got := strings.Contains(strings.Join(info.Warnings, " "), "owned by root"); got != want {
			t.Errorf("owner %d: warnings %q", owner, info.Warnings)
		}
		if !strings.Contains(info.Isolation, fmt.Sprintf("uid %d", max(owner, 0))) || !strings.Contains(info.Isolation, testImage) {
			t.Errorf("isolation %q", info.Isolation)
		}
	}
}

// TestMounts shows host paths, also by a name that is a symbolic link.
func TestMounts(t *testing.T) {
	needDaemon(t)
	spec := sandboxtest.Spec(t, stranger)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	shown, bundle := filepath.Join(dir, "shown"), filepath.Join(dir, "bundle")
	for _, f := range []string{shown, bundle} {
		if err := errors.Join(os.WriteFile(f, []byte(filepath.Base(f)), 0o600), os.Chmod(f, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	link, name := filepath.Join(dir, "link"), filepath.Join(dir, "name")
	for at, target := range map[string]string{link: shown, name: spec.WorkingDir} {
		if err := os.Symlink(target, at); err != nil {
			t.Fatal(err)
		}
	}
	real := spec.WorkingDir
	spec.WorkingDir = name
	// /usr/bin is the image's own: the host's libraries are not there.
	spec.Mounts = []sandbox.Mount{{Path: link}, {Path: "/usr/bin"}}
	o := logged(t)
	o.CABundle = bundle
	sb := sandboxtest.Create(t, docker.New(o), spec)
	for script, want := range map[string]string{
		"cat " + link + " " + shown:                   "shownshown",
		"cat " + bundle:                               "bundle",
		"grep ' /usr/bin ' /proc/mounts":              "",
		"cat /etc/ssl/certs/ca-certificates.crt":      "bundle",
		"echo x > " + shown + " || echo refused":      "refused\n",
		"echo 1 > " + name + "/f; cat " + real + "/f": "1\n",
	} {
		if out, errs, _ := sandboxtest.Run(t, sb, script); out != want {
			t.Errorf("%s: %q %q, want %q", script, out, errs, want)
		}
	}
}

// TestLimits looks at a container from outside.
func TestLimits(t *testing.T) {
	needDaemon(t)
	cli := engine(t)
	machine, err := cli.Info(t.Context(), client.InfoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name         string
		limits       docker.Limits
		memory, pids int64
		cpus         int64
	}{
		{"defaults", docker.Limits{}, machine.Info.MemTotal / 4 * 3, 4096, 0},
		{"given", docker.Limits{Memory: 1 << 30, CPUs: 1.5, PIDs: 100}, 1 << 30, 100, 15e8},
		{"unlimited", docker.Limits{Memory: -1, CPUs: -1, PIDs: -1}, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := logged(t)
			o.Limits = tt.limits
			spec := sandboxtest.Spec(t, -1)
			sandboxtest.Create(t, docker.New(o), spec)
			c, err := cli.ContainerInspect(t.Context(), container(t, spec.ID), client.ContainerInspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			h := c.Container.HostConfig
			pids := int64(0)
			if h.PidsLimit != nil {
				pids = max(*h.PidsLimit, 0) // -1 is none, too
			}
			if h.Memory != tt.memory || h.NanoCPUs != tt.cpus || pids != tt.pids {
				t.Errorf("memory %d, cpus %d, pids %d", h.Memory, h.NanoCPUs, pids)
			}
			if h.LogConfig.Type != "none" || string(h.NetworkMode) != "none" || !h.ReadonlyRootfs || h.Privileged ||
				len(h.CapAdd) > 0 || len(h.CapDrop) == 0 || !slices.ContainsFunc(h.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, "no-new-privileges") }) {
				t.Errorf("host configuration %+v", h)
			}
		})
	}
}

// TestNames: two sandboxes of one session at once.
func TestNames(t *testing.T) {
	needDaemon(t)
	cli := engine(t)
	var names []string
	for range 2 {
		spec := sandboxtest.Spec(t, -1)
		spec.Labels = map[string]string{"agent": "goose", "session": "a/b " + filepath.Base(fixture.state)}
		sandboxtest.Create(t, newDriver(t), spec)
		c, err := cli.ContainerInspect(t.Context(), container(t, spec.ID), client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, c.Container.Name)
	}
	if want := "/goku-sandbox-goose-a_b_" + filepath.Base(fixture.state); names[0] != want || !strings.HasPrefix(names[1], want+"-test-") {
		t.Errorf("names %q", names)
	}
}

// TestScratch runs gander in an image without anything, and a command that is
// mounted.
func TestScratch(t *testing.T) {
	needDaemon(t)
	const image = "gander-test-scratch:latest"
	importEmpty(t, image)
	o := logged(t)
	o.Image = func(string) string { return image }
	spec := sandboxtest.Spec(t, stranger)
	sb := sandboxtest.Create(t, docker.New(o), spec)
	_, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"/bin/sh"}, Env: sandboxtest.Env()})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a shell in an empty image: %v", err)
	}
	p := sandboxtest.StartCommand(t, sb, sandbox.Command{Args: []string{"/run/gander/bin/gander", "nonsense"}})
	if st := sandboxtest.Wait(t, p); st.Code != 2 {
		t.Errorf("the mounted program: %+v", st)
	}
}

// importEmpty makes an image of an archive without files.
func importEmpty(t *testing.T, image string) {
	t.Helper()
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	cli := engine(t)
	r, err := cli.ImageImport(t.Context(), client.ImageImportSource{Source: &empty, SourceName: "-"}, image, client.ImageImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r)
	_ = r.Close()
	t.Cleanup(func() {
		_, _ = cli.ImageRemove(context.WithoutCancel(t.Context()), image, client.ImageRemoveOptions{Force: true})
	})
}

// TestSentences: what a person reads when something is missing.
func TestSentences(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*docker.Options, *sandbox.Spec)
		daemon bool
		want   []string
	}{
		{
			"no image", func(o *docker.Options, _ *sandbox.Spec) { o.Image = nil }, true,
			[]string{"there is no image goku-sandbox-nobody:latest", "gander sandbox build"},
		},
		{
			"no daemon", func(o *docker.Options, _ *sandbox.Spec) { o.Host = "unix:///no/such.sock" }, false,
			[]string{"no Docker daemon answers at unix:///no/such.sock", "systemctl start docker", "DOCKER_HOST"},
		},
		{
			"not a socket", func(o *docker.Options, _ *sandbox.Spec) { o.Host = "unix://" + script }, false,
			[]string{"no Docker daemon answers", "systemctl start docker"},
		},
		{
			"remote", func(o *docker.Options, _ *sandbox.Spec) { o.Host = "tcp://192.0.2.1:2375" }, false,
			[]string{"192.0.2.1", "not on this machine", "DOCKER_HOST"},
		},
		{
			"ssh", func(o *docker.Options, _ *sandbox.Spec) { o.Host = "ssh://somebody@example.org" }, false,
			[]string{"not on this machine"},
		},
		{
			"no address", func(o *docker.Options, _ *sandbox.Spec) { o.Host = ":" }, false,
			[]string{"correct DOCKER_HOST"},
		},
		{
			"no project", func(_ *docker.Options, s *sandbox.Spec) { s.WorkingDir = "/no/such" }, false,
			[]string{"opening the project directory", "/no/such"},
		},
		{
			"the system", func(_ *docker.Options, s *sandbox.Spec) { s.WorkingDir = "/usr" }, false,
			[]string{"part of the system"},
		},
		{
			"no mount", func(_ *docker.Options, s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Path: "/no/such"}} }, false,
			[]string{"showing /no/such in the sandbox"},
		},
		{
			"a link in the project", func(_ *docker.Options, s *sandbox.Spec) {
				link := filepath.Join(s.WorkingDir, "docs")
				if err := os.Symlink("/root", link); err != nil {
					t.Fatal(err)
				}
				s.Mounts = []sandbox.Mount{{Path: link}}
			}, false,
			[]string{"docs is a link in ", "which the sandbox can write"},
		},
		{
			"no supervisor", func(o *docker.Options, _ *sandbox.Spec) { o.Executable = "/no/such" }, false,
			[]string{"finding the supervisor's program"},
		},
		{
			"a script", func(o *docker.Options, _ *sandbox.Spec) { o.Executable = script }, false,
			[]string{"not a Linux program"},
		},
		{
			"a dynamic program", func(o *docker.Options, _ *sandbox.Spec) { o.Executable = "/bin/sh" }, false,
			[]string{"linked dynamically", "CGO_ENABLED=0"},
		},
		{
			"another program", func(o *docker.Options, _ *sandbox.Spec) { o.Executable = staticStranger(t) }, true,
			[]string{"the supervisor does not start in " + testImage},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.daemon {
				needDaemon(t)
			}
			o, spec := options(), sandboxtest.Spec(t, -1)
			spec.Labels = map[string]string{"agent": "nobody"}
			tt.change(&o, &spec)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			sb, err := docker.New(o).Create(ctx, spec)
			if err == nil {
				_ = sb.Close()
				t.Fatal("a sandbox was made")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
			t.Log(err)
		})
	}
}

// staticStranger builds a program that is not a supervisor.
func staticStranger(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, exe := filepath.Join(dir, "main.go"), filepath.Join(dir, "stranger")
	body := "package main\nfunc main() { println(`I am somebody else`) }\n"
	if err := os.WriteFile(source, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	goBuild(t, exe, source)
	return exe
}

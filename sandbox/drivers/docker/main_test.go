//go:build linux

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
)

// testImage has what the contract's commands need, but for Go, which is mounted.
const testImage = "gander-test:latest"

const testDockerfile = `FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends curl git make nodejs npm python3-minimal python3-pip libpython3-stdlib && rm -rf /var/lib/apt/lists/*
`

// fixture is what the tests of this package share; TestMain sets it up.
var fixture struct {
	state string // the state directory of the drivers here
	exe   string // a static supervisor
	plain string // one that does not know of sockets
	skip  string // why tests with containers cannot run
}

func TestMain(m *testing.M) {
	if args := os.Getenv(childEnv); args != "" {
		os.Exit(runChild(args))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gander-docker-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fixture.state = filepath.Join(dir, "state")
	fixture.exe, fixture.plain = filepath.Join(dir, "supervisor"), filepath.Join(dir, "plain")
	if err := prepare(dir); err != nil {
		fixture.skip = err.Error()
	}
	code := m.Run()
	if err := errors.Join(nothingLeft(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// prepare builds the supervisor and the image.
func prepare(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // containers of other users start the supervisor
		return err
	}
	for exe, sockets := range map[string]string{fixture.exe: "on", fixture.plain: "off"} {
		build := exec.Command("go", "build", "-ldflags", "-X main.sockets="+sockets, "-o", exe, "./testdata/supervisor")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building the supervisor: %w: %s", err, out)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := docker.New(options()).Check(ctx); err != nil {
		return err
	}
	image := exec.Command("docker", "build", "-t", testImage, "-")
	image.Stdin, image.Env = strings.NewReader(testDockerfile), append(os.Environ(), "DOCKER_BUILDKIT=0")
	if out, err := image.CombinedOutput(); err != nil {
		return fmt.Errorf("building the tests' image: %w: %s", err, out)
	}
	return nil
}

// nothingLeft says which containers of the tests there still are.
func nothingLeft() error {
	if fixture.skip != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := docker.List(ctx, options())
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("containers are left: %v", list)
	}
	return err
}

func options() docker.Options {
	return docker.Options{
		Host: os.Getenv("DOCKER_HOST"), Executable: fixture.exe, StateDir: fixture.state,
		Image: func(string) string { return testImage },
	}
}

// logged are options with the test's log.
func logged(t *testing.T) docker.Options {
	o := options()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	return o
}

func newDriver(t *testing.T) sandbox.Driver { return docker.New(logged(t)) }

// newAttached is a driver whose containers do not connect to a socket.
func newAttached(t *testing.T) sandbox.Driver {
	o := logged(t)
	o.Executable = fixture.plain
	return docker.New(o)
}

// needDaemon skips a test without a daemon, but fails in make check.
func needDaemon(t *testing.T) {
	t.Helper()
	switch {
	case fixture.skip == "":
	case os.Getenv("GANDER_CHECK") == "1":
		t.Fatal(fixture.skip)
	default:
		t.Skip(fixture.skip)
	}
}

// engine is a client of the daemon, to look at containers from outside.
func engine(t *testing.T) *client.Client {
	t.Helper()
	cli, err := client.New(client.WithHostFromEnv())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// container is the only container of a sandbox.
func container(t *testing.T, id string) string {
	t.Helper()
	list, err := docker.List(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if r.ID == id {
			return r.Container
		}
	}
	t.Fatalf("no container is listed for sandbox %s", id)
	return ""
}

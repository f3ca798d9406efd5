package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/moby/moby/client"
)

// UsualSockets are where daemons of Docker and Podman listen on this system, the
// most usual first. home is the person's home directory, runtimeDir is
// XDG_RUNTIME_DIR; both may be empty.
func UsualSockets(home, runtimeDir string) []string {
	sockets := []string{"/var/run/docker.sock"}
	if runtimeDir != "" {
		sockets = append(sockets, filepath.Join(runtimeDir, "docker.sock"))
	}
	if home != "" {
		for _, rel := range []string{".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock", ".rd/docker.sock"} {
			sockets = append(sockets, filepath.Join(home, rel))
		}
	}
	sockets = append(sockets, "/run/podman/podman.sock")
	if runtimeDir != "" {
		sockets = append(sockets, filepath.Join(runtimeDir, "podman", "podman.sock"))
	}
	return sockets
}

// host is the address of the daemon.
func (o Options) host() string {
	if o.Host != "" {
		return o.Host
	}
	for _, path := range o.Sockets {
		if st, err := os.Stat(path); err == nil && st.Mode()&os.ModeSocket != 0 {
			return "unix://" + path
		}
	}
	return client.DefaultDockerHost
}

// connect returns a client of a daemon that answers. The caller closes it.
func (o Options) connect(ctx context.Context) (*client.Client, error) {
	host := o.host()
	if err := checkHost(host); err != nil {
		return nil, err
	}
	cli, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("using the daemon's address %s: %w; correct DOCKER_HOST", host, err)
	}
	ping, err := cli.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err == nil && ping.OSType != "" && ping.OSType != "linux" {
		err = fmt.Errorf("the Docker daemon at %s runs %s containers; switch it to Linux containers", host, ping.OSType)
	} else if err != nil {
		err = unreachable(host, err)
	}
	if err != nil {
		_ = cli.Close()
		return nil, err
	}
	return cli, nil
}

// checkHost refuses daemons that cannot see this machine's files.
func checkHost(host string) error {
	if runtime.GOOS == "windows" {
		return errors.New("the docker sandbox shows the project at its own path, which a container cannot have for a Windows path; run gander inside WSL")
	}
	u, err := url.Parse(host)
	if err != nil {
		return fmt.Errorf("the daemon's address %q is not one: %w; correct DOCKER_HOST", host, err)
	}
	switch u.Scheme {
	case "unix":
		return nil
	case "tcp", "http":
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("the Docker daemon at %s is not on this machine, so it cannot mount the project; use a local one (unset DOCKER_HOST, or point it to a unix socket), or the local sandbox", host)
}

// unreachable says why no daemon answers, and what to do.
func unreachable(host string, err error) error {
	if strings.Contains(err.Error(), "permission denied") {
		return fmt.Errorf("the Docker daemon at %s does not let this user in; add the user to the group of the socket (usermod -aG docker $USER, then log in again), or use rootless Docker or Podman", host)
	}
	if client.IsErrConnectionFailed(err) {
		why := ""
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			why = " (" + op.Err.Error() + ")"
		}
		return fmt.Errorf("no Docker daemon answers at %s%s; %s, or name another in DOCKER_HOST", host, why, howToStart(host))
	}
	return fmt.Errorf("the Docker daemon at %s does not answer as one: %w", host, err)
}

func howToStart(host string) string {
	switch {
	case runtime.GOOS != "linux":
		return "start Docker Desktop (or colima, or podman machine)"
	case strings.Contains(host, "podman"):
		return "start it (systemctl --user start podman.socket)"
	}
	return "start it (systemctl start docker)"
}

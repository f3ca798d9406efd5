package sandboxtest

import (
	"bytes"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostSecrets are variables that a person's environment has and that say something
// about the person, or lead to what acts for them.
func hostSecrets() []string {
	return []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS",
		"GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "NPM_TOKEN", "NODE_AUTH_TOKEN", "PYPI_TOKEN", "CARGO_REGISTRY_TOKEN", "DOCKER_AUTH_CONFIG",
		"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "LLM_API_KEY", "HF_TOKEN", "VAULT_TOKEN", "KUBECONFIG", "DATABASE_URL", "PGPASSWORD", "REDIS_URL",
		"SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_CONNECTION", "GPG_AGENT_INFO", "GNUPGHOME", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR",
		"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "ICEAUTHORITY", "SESSION_MANAGER", "TMUX", "STY", "VSCODE_IPC_HOOK_CLI", "GIT_ASKPASS",
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "PROMPT_COMMAND", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS",
		"PERL5LIB", "RUBYOPT", "GIT_SSH_COMMAND", "GIT_CONFIG_PARAMETERS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "MAIL",
		"GANDER_HOME", "SUDO_USER", "LS_COLORS", "HISTFILE", "SOME_UNKNOWN_VARIABLE",
	}
}

// hostSockets are where what acts for a person listens, on most systems.
func hostSockets() []string {
	return []string{
		"/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket",
		"/var/run/dbus/system_bus_socket", "/tmp/.X11-unix", "/tmp/.ICE-unix", "/run/user", "/run/systemd/private", "/run/snapd.socket", "/run/nscd/socket",
	}
}

// TestHostEnvironment tests that nothing of the host's environment gets to any
// process of a sandbox, and that the sockets of what acts for the person are not
// there. owner is as for TestDriver.
func TestHostEnvironment(t *testing.T, newDriver NewDriver, owner int) {
	mark := "host-secret-" + rand.Text()
	agent := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", agent)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range hostSecrets() {
		value := mark
		switch {
		case name == "SSH_AUTH_SOCK":
			value = agent
		case strings.HasPrefix(name, "LD_") || strings.HasSuffix(strings.ToLower(name), "_proxy"):
			value = "/nonexistent/" + mark
		}
		t.Setenv(name, value)
	}
	sb := Create(t, newDriver(t), Spec(t, owner))
	p := Start(t, sb, "sleep 1000 & echo started; wait")
	if readLine(t, p.Stdout()) != "started" {
		t.Fatal("the command of the test did not start")
	}
	defer Kill(t, p)

	out, _, _ := Run(t, sb, "env; for f in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f; done 2>/dev/null")
	if !strings.Contains(out, "PATH=/usr/local/bin") {
		t.Fatalf("the environments inside cannot be looked at: %q", out)
	}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.Contains(value, mark) || strings.Contains(value, agent) {
			t.Errorf("%s of the host is inside", name)
		}
	}
	// Not even in processes that nobody inside can look at: this process passes
	// its environment on to nobody.
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		if raw, _ := os.ReadFile(file); bytes.Contains(raw, []byte(mark)) {
			t.Errorf("the process of %s has the environment of the host", file)
		}
	}
	if out, _, st := Run(t, sb, "test -e "+agent+" && echo there"); out != "" || st.Code == 0 {
		t.Error("the socket of the SSH agent is inside")
	}
	for _, path := range hostSockets() {
		if out, _, _ := Run(t, sb, "find "+path+" ! -type d 2>/dev/null"); out != "" {
			t.Errorf("inside there is %s", out)
		}
	}
}

//go:build unix

package docker

import (
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/project"
)

func TestHostIsTheFirstSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skip("this system's temporary directory is too long for a socket:", err)
	}
	defer func() { _ = l.Close() }()
	sockets := []string{filepath.Join(dir, "none"), dir, path}
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Sockets: sockets}, "unix://" + path},
		{Options{Host: "unix:///other", Sockets: sockets}, "unix:///other"},
		{Options{Sockets: sockets[:2]}, "unix:///var/run/docker.sock"},
	} {
		if got := tt.o.host(); got != tt.want {
			t.Errorf("host %q, want %q", got, tt.want)
		}
	}
}

func TestUsualSockets(t *testing.T) {
	got := strings.Join(UsualSockets("/home/me", "/run/user/1000"), " ")
	for _, want := range []string{"/var/run/docker.sock", "/run/user/1000/docker.sock", "/home/me/.docker/run/docker.sock", "/run/user/1000/podman/podman.sock"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not among %s", want, got)
		}
	}
	if got := UsualSockets("", ""); len(got) != 2 {
		t.Errorf("without a home: %q", got)
	}
}

func TestRootless(t *testing.T) {
	p := plan{user: project.Owner{UID: 1000, GID: 1000}, warnings: []string{"careful"}}
	if p.config().User != "1000:1000" {
		t.Errorf("user %s", p.config().User)
	}
	if p.becomeRootless(); p.config().User != "0:0" || len(p.warnings) != 0 {
		t.Errorf("rootless: user %s, warnings %q", p.config().User, p.warnings)
	}
	for _, tt := range []struct {
		options []string
		want    bool
	}{
		{[]string{"name=seccomp,profile=default"}, false},
		{[]string{"name=seccomp,profile=default", "name=rootless"}, true},
	} {
		if got := isRootless(system.Info{SecurityOptions: tt.options}, "tcp://127.0.0.1:1"); got != tt.want {
			t.Errorf("%q: rootless %v", tt.options, got)
		}
	}
}

// A vsock leads past a container's network namespace. The kernel takes half of the argument,
// so a rule that compares all of it would let one through.
func TestSocketFamilies(t *testing.T) {
	text, err := seccompProfile()
	if err != nil {
		t.Fatal(err)
	}
	var profile struct {
		Syscalls []struct {
			Names []string
			Args  []struct {
				Index, Value, ValueTwo uint64
				Op                     string
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &profile); err != nil {
		t.Fatal(err)
	}
	var families []uint64
	for _, rule := range profile.Syscalls {
		if !slices.Contains(rule.Names, "socket") {
			continue
		}
		if len(rule.Args) != 1 || rule.Args[0].Index != 0 || rule.Args[0].Value != 0xffffffff || rule.Args[0].Op != "SCMP_CMP_MASKED_EQ" {
			t.Fatalf("sockets are permitted by %+v", rule)
		}
		families = append(families, rule.Args[0].ValueTwo)
	}
	if want := []uint64{1, 2, 10, 16}; !slices.Equal(families, want) {
		t.Errorf("the families %v are permitted, want %v", families, want)
	}
}

func TestMemoryLimit(t *testing.T) {
	for _, tt := range []struct{ machine, limit, want int64 }{
		{16 << 30, 0, 12 << 30},
		{1 << 30, 0, 1 << 30},
		{16 << 30, 2 << 30, 2 << 30},
		{16 << 30, -1, 0},
	} {
		var p plan
		p.fit(system.Info{MemTotal: tt.machine}, Limits{Memory: tt.limit})
		if got := p.hostConfig().Memory; got != tt.want {
			t.Errorf("machine %d, limit %d: %d, want %d", tt.machine, tt.limit, got, tt.want)
		}
	}
}

func TestHomeInside(t *testing.T) {
	for _, tt := range []struct{ home, project, want string }{
		{"", "/p", ""},
		{"/h", "/p", "/home/agent"},
		{"/h", "/home/agent", "/home/gander"},
		{"/h", "/home/agent/project", "/home/agent"},
	} {
		got := homeInside(sandbox.Spec{Home: tt.home}, project.Project{Path: tt.project, Name: tt.project})
		if got != tt.want {
			t.Errorf("home %q of project %s is at %q, want %q", tt.home, tt.project, got, tt.want)
		}
	}
}

func TestIsSystem(t *testing.T) {
	for path, want := range map[string]bool{
		"/usr/bin": true, "/": true, "/proc/1": true, "/etc": true, "/tmp": true,
		"/etc/ssl/cert.pem": false, "/usr/local/lib/node_modules/x": false, "/home/me": false, "/opt/goose/bin": false,
	} {
		if got := isSystem(path); got != want {
			t.Errorf("isSystem(%s) = %v", path, got)
		}
	}
}

func TestImageName(t *testing.T) {
	for agent, want := range map[string]string{
		"goose": "goku-sandbox-goose:latest", "opencode": "goku-sandbox-opencode:latest", "": "goku-sandbox-goose:latest",
	} {
		if got := ImageName(agent); got != want {
			t.Errorf("ImageName(%q) = %q", agent, got)
		}
	}
}

func TestParseOwner(t *testing.T) {
	for _, s := range []string{"", "1", "x:1", "1:x", "1:-1"} {
		if r := parseOwner(s); r.PID != 0 || r.Alive() {
			t.Errorf("parseOwner(%q) = %+v", s, r)
		}
	}
	if r := parseOwner("12:345"); r.PID != 12 || r.Start != 345 {
		t.Errorf("%+v", r)
	}
}

func TestExplainBuild(t *testing.T) {
	c := buildContext{base: "debian@sha256:0123"}
	pull := c.explain(errText(`Get "https://registry-1.docker.io/v2/": no such host`))
	if !strings.Contains(pull.Error(), "the base image debian@sha256:0123") {
		t.Errorf("%v", pull)
	}
	if other := c.explain(errText("exit code: 100")); other.Error() != "exit code: 100" {
		t.Errorf("%v", other)
	}
}

type errText string

func (e errText) Error() string { return string(e) }

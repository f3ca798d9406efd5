package wire

import (
	"net/http"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox"
)

// auto is never something weaker than what it stands for.
func TestChosenDriver(t *testing.T) {
	for _, tt := range []struct{ choice, system, want string }{
		{"auto", "linux", "local"},
		{"auto", "darwin", "docker"},
		{"auto", "windows", "docker"},
		{"local", "darwin", "local"},
		{"docker", "linux", "docker"},
		{"off", "darwin", "off"},
	} {
		if got := ChosenDriver(tt.choice, tt.system); got != tt.want {
			t.Errorf("%s on %s is %s, want %s", tt.choice, tt.system, got, tt.want)
		}
	}
}

// An agent that is not on this machine may be in the image of a container, and
// nowhere else.
func TestAgentOfTheImage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("programs of other systems are never used in containers")
	}
	load := func(driver string, more ...string) *config.Config {
		environ := append([]string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin", "LLM_HOST=http://127.0.0.1:9", "GOOSE_MODEL=duck"}, more...)
		cfg, err := config.Load(config.Options{Environ: environ, Flags: config.Flags{Sandbox: driver}})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	s, err := settingsOf(load("docker"), "goose")
	if err != nil || !slices.Equal(s.ImageCommand, []string{"goose"}) || s.Missing == nil || len(s.Mounts) > 0 {
		t.Errorf("in a container: %+v, %v", s, err)
	}
	if _, err := settingsOf(load("local"), "goose"); err == nil {
		t.Error("an agent that is not installed can be used in a local sandbox")
	}
	if _, err := settingsOf(load("docker", "GANDER_GOOSE_CMD=/nowhere/goose"), "goose"); err == nil {
		t.Error("the program that was asked for is silently another one")
	}
	s, err = settingsOf(load("docker", "GANDER_GOOSE_CMD=/bin/true"), "goose")
	if err != nil || s.Missing != nil || s.ImageCommand != nil || len(s.Command) != 1 {
		t.Errorf("with a program of this machine: %+v, %v", s, err)
	}
}

func TestProxyOf(t *testing.T) {
	environ := []string{"HTTPS_PROXY=http://secure:1", "http_proxy=http://plain:2", "NO_PROXY=internal.example"}
	for url, want := range map[string]string{
		"https://api.example.com/v1": "http://secure:1",
		"http://api.example.com/v1":  "http://plain:2",
		"https://internal.example":   "",
		"http://127.0.0.1:8080":      "",
		"http://localhost:8080":      "",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := ProxyOf(environ)(req)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if proxy != nil {
			got = proxy.String()
		}
		if got != want {
			t.Errorf("%s goes through %q, want %q", url, got, want)
		}
	}
}

// A sandbox shows an agent's program, and not what happens to lie beside it.
func TestProgramMount(t *testing.T) {
	for program, want := range map[string]string{
		"/a/x":                            "/a/x",
		"/a/node_modules/p/bin/x":         "/a/node_modules/p",
		"/a/node_modules/@s/q/bin/deep/x": "/a/node_modules/@s/q",
		"/a/node_modules/p/node_modules/@s/q/bin/x": "/a/node_modules/p/node_modules/@s/q",
		"/a/node_modules/x":                         "/a/node_modules/x",
		"/a/node_modules/@s/x":                      "/a/node_modules/@s/x",
	} {
		got := ProgramMount(program)
		if len(got) != 1 || got[0].Path != want || got[0].Writable {
			t.Errorf("%s is shown by %+v, want %s read-only", program, got, want)
		}
	}
	if got := ProgramMount("relative"); got != nil {
		t.Errorf("a program in PATH is shown by %+v", got)
	}
}

func TestOutermost(t *testing.T) {
	mounts := []sandbox.Mount{{Path: "/a/b/c"}, {Path: "/a/b"}, {Path: "/a/bc"}, {Path: "/a/b"}, {Path: "/shown/x"}, {Path: "/shown"}}
	want := []sandbox.Mount{{Path: "/a/b"}, {Path: "/a/bc"}}
	if diff := cmp.Diff(want, outermost(mounts, []string{"/shown"})); diff != "" {
		t.Error(diff)
	}
}

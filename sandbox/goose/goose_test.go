package goose

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// box is a sandbox that notes what is to be started and refuses.
type box struct {
	sandbox.Sandbox
	command sandbox.Command
}

func (b *box) Info() sandbox.Info { return sandbox.Info{Home: "/home/agent"} }

func (b *box) Start(_ context.Context, c sandbox.Command) (sandbox.Process, error) {
	b.command = c
	return nil, errors.New("not here")
}

func agentWith(s Settings) *Agent {
	return New(func() (Settings, error) { return s, nil }, Options{})
}

func TestCommandAndEnvironment(t *testing.T) {
	settings := Settings{
		Command: []string{"/opt/goose/goose", "--debug"},
		Env:     []string{"PATH=/usr/bin", "LANG=C.UTF-8", "GOOSE_MODE=auto", "OPENAI_HOST=http://elsewhere", "HOME=/root"},
		Model:   "small", Mode: "approve",
	}
	ours := []string{
		"PATH=/usr/bin", "LANG=C.UTF-8", "HOME=/home/agent", "GOOSE_PATH_ROOT=/home/agent/.goose", "GOOSE_PROVIDER=openai",
		"OPENAI_HOST=http://127.0.0.1:99", "OPENAI_API_KEY=inside", "GOOSE_DISABLE_KEYRING=1", "GOOSE_DISABLE_SESSION_NAMING=true", "GOOSE_TELEMETRY_OFF=1",
	}
	tests := map[string]struct {
		params sandbox.SessionParams
		want   []string
	}{
		"the configuration's": {sandbox.SessionParams{}, []string{"GOOSE_MODEL=small", "GOOSE_MODE=approve"}},
		"the person's":        {sandbox.SessionParams{Model: "large", Mode: "chat"}, []string{"GOOSE_MODEL=large", "GOOSE_MODE=chat"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := new(box)
			tt.params.WorkingDir, tt.params.ModelAddr, tt.params.ModelToken = "/project", "127.0.0.1:99", "inside"
			_, err := agentWith(settings).Open(t.Context(), b, tt.params)
			if err == nil || !strings.Contains(err.Error(), "starting goose in its sandbox: not here") {
				t.Fatalf("got %v", err)
			}
			want := sandbox.Command{Args: []string{"/opt/goose/goose", "--debug", "acp"}, Env: append(slices.Clone(ours), tt.want...), Dir: "/project", Infrastructure: true}
			if diff := cmp.Diff(want, b.command); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
	if len(settings.Command) != 2 || len(settings.Env) != 5 {
		t.Errorf("the settings were changed: %+v", settings)
	}
}

func TestWithoutModelAndMode(t *testing.T) {
	b := new(box)
	_, _ = agentWith(Settings{Command: []string{"goose"}}).Open(t.Context(), b, sandbox.SessionParams{})
	for _, v := range b.command.Env {
		if strings.HasPrefix(v, "GOOSE_MODEL=") || strings.HasPrefix(v, "GOOSE_MODE=") {
			t.Errorf("%s is set", v)
		}
	}
}

func TestWhatIsMissing(t *testing.T) {
	missing := errors.New("goose is not installed; run gander agent install goose")
	a := New(func() (Settings, error) { return Settings{}, missing }, Options{})
	if err := a.Check(t.Context()); !errors.Is(err, missing) {
		t.Errorf("Check: %v", err)
	}
	if _, err := a.Open(t.Context(), new(box), sandbox.SessionParams{}); !errors.Is(err, missing) {
		t.Errorf("Open: %v", err)
	}
	if a.Mounts() != nil || a.Defaults().Modes != nil {
		t.Errorf("mounts %v, defaults %+v", a.Mounts(), a.Defaults())
	}
}

func TestDefaults(t *testing.T) {
	a := agentWith(Settings{Model: "small", Mode: "chat", Mounts: []sandbox.Mount{{Path: "/opt/goose"}}})
	st := a.Defaults()
	if st.Modes.CurrentModeID != "chat" || len(st.Modes.AvailableModes) != 4 {
		t.Errorf("modes %+v", st.Modes)
	}
	if o := acpagent.Option(st.ConfigOptions, acp.CategoryModel); o == nil || acpagent.StringValue(o) != "small" {
		t.Errorf("options %+v", st.ConfigOptions)
	}
	if a.Name() != "goose" || len(a.Mounts()) != 1 || a.Check(t.Context()) != nil {
		t.Errorf("name %q, mounts %v", a.Name(), a.Mounts())
	}
	st = agentWith(Settings{}).Defaults()
	if st.Modes.CurrentModeID != "auto" || st.ConfigOptions != nil {
		t.Errorf("defaults of nothing: %+v", st)
	}
}

func TestFailedExtensions(t *testing.T) {
	for meta, want := range map[string][]string{
		`{"extensionResults":[{"name":"developer","success":true},{"name":"db","success":false,"error":"exit 1"}]}`: {`goose could not start its extension "db", its tools are missing: exit 1`},
		`{"extensionResults":"none"}`: nil,
		``:                            nil,
	} {
		if diff := cmp.Diff(want, failedExtensions([]byte(meta))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", meta, diff)
		}
	}
}

// Nobody is there to be asked: what the configuration says about asking does not count.
func TestOneShot(t *testing.T) {
	a := agentWith(Settings{Command: []string{"/opt/goose", "--debug"}, Env: []string{"PATH=/usr/bin"}, Model: "small", Mode: "approve"})
	for params, want := range map[string]string{"": "GOOSE_MODE=auto", "chat": "GOOSE_MODE=chat"} {
		c, err := a.OneShot(t.Context(), new(box), sandbox.SessionParams{WorkingDir: "/project", ModelAddr: "127.0.0.1:99", ModelToken: "inside", Mode: params})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"/opt/goose", "--debug", "run", "--quiet", "--output-format", "stream-json", "--no-session", "-i", "-"}, c.Args); diff != "" {
			t.Errorf("command (-want +got):\n%s", diff)
		}
		if !slices.Contains(c.Env, want) || !slices.Contains(c.Env, "OPENAI_HOST=http://127.0.0.1:99") || c.Dir != "/project" {
			t.Errorf("environment %q in %s", c.Env, c.Dir)
		}
	}
}

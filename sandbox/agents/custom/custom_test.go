package custom

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox"
)

func TestCommand(t *testing.T) {
	s := Settings{
		Command: []string{"/opt/agent", "--acp", "--url={modelUrlV1}"},
		Env:     []string{"PATH=/bin", "BASE={modelUrl}", "OPENAI_API_KEY={key}", "NAME={model}", "DIR={home}/x", "ODD={unknown}", "HOME=/root", "XDG_CACHE_HOME=/x"},
		Model:   "duck-7b",
	}
	got := command(s, "/home/agent", sandbox.SessionParams{WorkingDir: "/project", ModelAddr: "127.0.0.1:4711", ModelToken: "inside"})
	want := sandbox.Command{
		Args: []string{"/opt/agent", "--acp", "--url=http://127.0.0.1:4711/v1"},
		Env: []string{
			"PATH=/bin", "BASE=http://127.0.0.1:4711", "OPENAI_API_KEY=inside", "NAME=duck-7b", "DIR=/home/agent/x", "ODD={unknown}",
			"HOME=/home/agent", "XDG_CONFIG_HOME=/home/agent/.config", "XDG_DATA_HOME=/home/agent/.local/share",
			"XDG_STATE_HOME=/home/agent/.local/state", "XDG_CACHE_HOME=/home/agent/.cache",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

func TestSettingsErrorIsShown(t *testing.T) {
	missing := errors.New("the duck is not installed")
	a := New("duck", func() (Settings, error) { return Settings{}, missing }, Options{})
	if err := a.Check(t.Context()); !errors.Is(err, missing) {
		t.Errorf("Check = %v", err)
	}
	if _, err := a.Open(t.Context(), nil, sandbox.SessionParams{}); !errors.Is(err, missing) {
		t.Errorf("Open = %v", err)
	}
	if a.Name() != "duck" || a.Mounts() != nil {
		t.Errorf("%s, %v", a.Name(), a.Mounts())
	}
}

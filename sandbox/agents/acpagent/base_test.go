package acpagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// place is a sandbox that says what it is and has no program.
type place struct {
	sandbox.Sandbox
	info sandbox.Info
}

func (p place) Info() sandbox.Info { return p.info }

func (p place) Start(_ context.Context, c sandbox.Command) (sandbox.Process, error) {
	return nil, fmt.Errorf("%s is not in PATH: %w", c.Args[0], fs.ErrNotExist)
}

// What starts an agent depends on whose programs the sandbox has.
func TestIn(t *testing.T) {
	missing := errors.New("duck is not installed; run gander agent install duck")
	image := sandbox.Info{Image: "pond", Env: []string{"PATH=/pond/bin"}}
	inside := func() []string { return []string{"PATH=/bin"} }
	for name, tt := range map[string]struct {
		info     sandbox.Info
		settings Settings
		command  string // empty: it is missing
		path     string
	}{
		"this machine's":                       {sandbox.Info{}, Settings{Command: []string{"/opt/duck"}, Inside: inside}, "/opt/duck", "PATH=/bin"},
		"this machine's, mounted":              {image, Settings{Command: []string{"/opt/duck"}, Inside: inside}, "/opt/duck", "PATH=/pond/bin:/bin"},
		"the image's, as there is none here":   {image, Settings{ImageCommand: []string{"duck"}, Missing: missing, Inside: inside}, "duck", "PATH=/pond/bin:/bin"},
		"the image's, as this one cannot run":  {image, Settings{Command: []string{"/opt/duck"}, ImageCommand: []string{"duck"}, Inside: inside}, "duck", "PATH=/pond/bin:/bin"},
		"none":                                 {sandbox.Info{}, Settings{ImageCommand: []string{"duck"}, Missing: missing, Inside: inside}, "", ""},
		"this machine's, though the image has": {sandbox.Info{}, Settings{Command: []string{"/opt/duck"}, ImageCommand: []string{"duck"}, Inside: inside}, "/opt/duck", "PATH=/bin"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.settings.Mode = "ask"
			b := NewBase("duck", func() (Settings, error) { return tt.settings, nil }, BaseOptions{})
			p := sandbox.SessionParams{}
			s, err := b.In(place{info: tt.info}, &p)
			if tt.command == "" {
				if !errors.Is(err, missing) {
					t.Errorf("got %+v, %v", s, err)
				}
				return
			}
			if err != nil || s.Command[0] != tt.command || !slices.Contains(s.Env, tt.path) {
				t.Errorf("got %q, %q, %v", s.Command, s.Env, err)
			}
			if p.Mode != "ask" {
				t.Errorf("mode %q", p.Mode)
			}
			p.Mode = "the person's"
			if _, err := b.In(place{info: tt.info}, &p); err != nil || p.Mode != "the person's" {
				t.Errorf("the chosen mode became %q, %v", p.Mode, err)
			}
		})
	}
}

// An image without the program: the sentence names both places.
func TestProgramIsNowhere(t *testing.T) {
	missing := errors.New("duck is not installed; run gander agent install duck")
	b := NewBase("duck", nil, BaseOptions{})
	o := Options{Command: sandbox.Command{Args: []string{"duck", "acp"}}}
	in := place{info: sandbox.Info{Image: "pond"}}
	_, err := b.Start(t.Context(), in, Settings{Missing: missing}, sandbox.SessionParams{}, o)
	if !errors.Is(err, missing) || !strings.Contains(err.Error(), "the image pond has no program duck") {
		t.Errorf("got %v", err)
	}
	_, err = b.Start(t.Context(), in, Settings{}, sandbox.SessionParams{}, o)
	if err == nil || !strings.Contains(err.Error(), "starting duck in its sandbox: duck is not in PATH") {
		t.Errorf("with a program of this machine: %v", err)
	}
}

func TestState(t *testing.T) {
	modes := []acp.SessionMode{{ID: "auto"}, {ID: "ask"}}
	value := func(name string) acp.ConfigOptionValue {
		return acp.ConfigOptionValue{Value: "own/" + name, Name: name}
	}
	state := func(s Settings, err error) sandbox.AgentState {
		b := NewBase("duck", func() (Settings, error) { return s, err }, BaseOptions{})
		return b.State(modes, value)
	}
	got := state(Settings{Model: "small", Mode: "ask"}, nil)
	if got.Modes.CurrentModeID != "ask" || len(got.ConfigOptions) != 1 || StringValue(&got.ConfigOptions[0]) != "own/small" {
		t.Errorf("state %+v", got)
	}
	if got := state(Settings{}, nil); got.Modes.CurrentModeID != "auto" || got.ConfigOptions != nil {
		t.Errorf("without a choice: %+v", got)
	}
	if diff := cmp.Diff(sandbox.AgentState{}, state(Settings{}, errors.New("not installed"))); diff != "" {
		t.Errorf("without the agent: %s", diff)
	}
}

func TestWith(t *testing.T) {
	env := []string{"A=1", "B=2", "A=3"}
	if diff := cmp.Diff([]string{"B=2", "A=4", "C=5"}, With(env, "A=4", "C=5")); diff != "" {
		t.Error(diff)
	}
	if env[0] != "A=1" || len(env) != 3 {
		t.Errorf("what was given has changed: %q", env)
	}
}

package main

import (
	"runtime"
	"slices"
	"testing"

	"gander.dev/gander/cmd/gander/internal/config"
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
		if got := chosenDriver(tt.choice, tt.system); got != tt.want {
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

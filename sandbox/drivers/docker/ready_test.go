//go:build linux

package docker_test

import (
	"strings"
	"testing"

	"gander.dev/gander/sandbox/drivers/docker"
)

// TestReady: a sentence for what is missing, before anything is made.
func TestReady(t *testing.T) {
	o := options()
	o.Host = "unix:///no/such.sock"
	if err := docker.New(o).Ready(t.Context(), "goose"); err == nil || !strings.Contains(err.Error(), "no Docker daemon answers at unix:///no/such.sock") {
		t.Errorf("without a daemon: %v", err)
	}
	needDaemon(t)
	o = options()
	if err := docker.New(o).Ready(t.Context(), "goose"); err != nil {
		t.Errorf("with daemon and image: %v", err)
	}
	o.Image = nil
	err := docker.New(o).Ready(t.Context(), "nobody")
	if err == nil || !strings.Contains(err.Error(), "there is no image goku-sandbox-nobody:latest") || !strings.Contains(err.Error(), "gander sandbox build") {
		t.Errorf("without the image: %v", err)
	}
}

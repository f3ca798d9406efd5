//go:build linux

package docker_test

import (
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// TestProbe runs every attempt to get out that we know, as uid 0 and as another user.
func TestProbe(t *testing.T) {
	needDaemon(t)
	const image = "gander-test-git:latest"
	buildImage(t, image, "FROM "+testImage+"\nRUN apt-get install -y --no-install-recommends git || { apt-get update && apt-get install -y --no-install-recommends git; }\n")
	withGit := func(t *testing.T) sandbox.Driver {
		o := logged(t)
		o.Image = func(string) string { return image }
		return docker.New(o)
	}
	for name, owner := range map[string]int{"root's project": -1, "user's project": stranger} {
		t.Run(name, func(t *testing.T) { sandboxtest.TestProbe(t, withGit, fixture.exe, owner) })
	}
}

//go:build linux

package docker_test

import (
	"testing"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// TestProbe runs the attempts to get out of what a container closes in its own way, and
// everywhere all that we know, as uid 0 and as another user.
func TestProbe(t *testing.T) {
	needDaemon(t)
	const image = "gander-test-git:latest"
	buildImage(t, image, "FROM "+testImage+"\nRUN apt-get install -y --no-install-recommends git || { apt-get update && apt-get install -y --no-install-recommends git; }\n")
	withGit := func(t *testing.T) sandbox.Driver {
		o := logged(t)
		o.Image = func(string) string { return image }
		return docker.New(o)
	}
	var only []string
	if !sandboxtest.Everywhere() {
		only = sandboxtest.OfPlace()
	}
	inRootsToo(t, func(t *testing.T) { sandboxtest.TestProbe(t, withGit, fixture.exe, -1) })
	t.Run("user's project", func(t *testing.T) { sandboxtest.TestProbe(t, withGit, fixture.exe, stranger, only...) })
}

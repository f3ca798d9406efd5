//go:build linux

package docker_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gander.dev/gander/sandbox"
)

// TestPlainBuildOfAFreshClone checks that the commands of the Dockerfiles, in a checkout where
// nothing was prepared, fail with the command that is to come first.
func TestPlainBuildOfAFreshClone(t *testing.T) {
	needDaemon(t)
	clone := t.TempDir()
	if err := os.CopyFS(clone, sandbox.Images); err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"goose", "opencode"} {
		cmd := exec.CommandContext(t.Context(), "docker", "build", "-f", clone+"/"+agent+"/Dockerfile", clone)
		cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "run 'make images'") || strings.Contains(string(out), "apt-get") {
			t.Errorf("%s: %v\n%s", agent, err, out)
		}
	}
}

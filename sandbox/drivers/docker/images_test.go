//go:build linux

package docker

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"

	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// TestImageByBuildKit: BuildKit builds an agent's own Dockerfile, too, and what it builds
// again from nothing is the same image. The one of opencode has all that goose's has.
func TestImageByBuildKit(t *testing.T) {
	if !sandboxtest.Everywhere() {
		t.Skip("it builds two images from nothing, which make soak does")
	}
	cli := daemon(t)
	c := buildContext{dir: t.TempDir(), processor: runtime.GOARCH, output: t.Output(), base: baseImage, fresh: true}
	if c.processor == "amd64" {
		c.processor = "x64"
	}
	agents, err := filepath.Abs("../../node_modules")
	if err == nil {
		_, err = os.Stat(filepath.Join(agents, ".installed"))
	}
	if err != nil && os.Getenv("GANDER_CHECK") != "1" {
		t.Skipf("the agents are missing (make agents): %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := unpackSource(c.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(agents, filepath.Join(c.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	// The last step asks gander for its version, and no answer is good enough.
	for at, from := range map[string]string{contextProgram: "/bin/true", contextBundle: debianBundle} {
		if err := c.copyIn(from, at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := buildCache(t, cli)
	t.Cleanup(func() { dropBuildCache(t, cli, before) })
	const agent, name = "opencode", "gander-test-opencode:latest"
	var built, sealed []string
	for range 2 {
		if err := c.buildWith(t.Context(), cli, agent, name, build.BuilderBuildKit); err != nil {
			t.Fatal(err)
		}
		built = append(built, imageID(t, cli, name))
		dropLater(t, cli, built[len(built)-1])
		id, err := c.seal(t.Context(), cli, name)
		if err != nil {
			t.Fatal(err)
		}
		dropLater(t, cli, id)
		sealed = append(sealed, id)
	}
	if built[0] == built[1] {
		t.Error("the control: both builds were the same before")
	}
	if sealed[0] != sealed[1] {
		t.Errorf("two builds are %s and %s", sealed[0], sealed[1])
	}
}

// dropLater removes an image after the test.
func dropLater(t *testing.T, cli *client.Client, id string) {
	t.Cleanup(func() {
		_, _ = cli.ImageRemove(context.WithoutCancel(t.Context()), id, client.ImageRemoveOptions{Force: true, PruneChildren: true})
	})
}

// buildCache are the ids of what BuildKit keeps of its builds.
func buildCache(t *testing.T, cli *client.Client) map[string]bool {
	t.Helper()
	used, err := cli.DiskUsage(context.WithoutCancel(t.Context()), client.DiskUsageOptions{BuildCache: true, Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, r := range used.BuildCache.Items {
		ids[r.ID] = true
	}
	return ids
}

// dropBuildCache removes what was not there before: agents are large. What others have
// been made from goes after these.
func dropBuildCache(t *testing.T, cli *client.Client, before map[string]bool) {
	t.Helper()
	for dropped := 1; dropped > 0; {
		dropped = 0
		for id := range buildCache(t, cli) {
			if before[id] {
				continue
			}
			done, err := cli.BuildCachePrune(context.WithoutCancel(t.Context()), client.BuildCachePruneOptions{All: true, Filters: client.Filters{}.Add("id", id)})
			if err != nil {
				t.Fatal(err)
			}
			dropped += len(done.Report.CachesDeleted)
		}
	}
}

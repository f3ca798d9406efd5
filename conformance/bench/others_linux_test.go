package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// sameOthers measures a short command beside other sandboxes, those of them that are
// in PATH: the npm packages @openai/codex and @anthropic-ai/sandbox-runtime.
func (b *bench) sameOthers() {
	for _, other := range []struct {
		program string
		args    func(dir string) []string
	}{
		{"codex", b.codexArgs},
		{"srt", b.srtArgs},
	} {
		what := "`true` in a warm sandbox with 100 ignored files, beside `" + other.program + "` with the same closed"
		if _, err := exec.LookPath(other.program); err != nil {
			b.table.absent(what, other.program+" is not in PATH")
			continue
		}
		dir := b.project("beside-"+other.program, 200, 100)
		args := other.args(dir)
		b.mustClose(dir, args)
		sb := b.ruled(dir)
		var inside, theirs samples
		alternate(b.runs(20),
			timed(&inside, func() { b.inside(sb, "bash", "-c", "true") }),
			timed(&theirs, func() { b.outside(dir, append(args, "true")...) }))
		_ = sb.Close()
		b.table.tell(pair{what, inside, theirs, inMS})
	}
}

// mustClose fails when the other sandbox does not do what it is measured for.
func (b *bench) mustClose(dir string, args []string) {
	b.t.Helper()
	if out := b.outside(dir, append(args, "cat part7/key7.pem 2>/dev/null || echo closed")...); out != "closed\n" {
		b.t.Fatalf("%q reads a file that it should have closed: %q", args, out)
	}
}

// codexArgs is codex's sandbox with the ignored files closed, without their script.
func (b *bench) codexArgs(string) []string {
	b.t.Helper()
	const profile = "default_permissions = \"bench\"\n[permissions.bench.filesystem]\n\":root\" = \"read\"\n" +
		"[permissions.bench.filesystem.\":project_roots\"]\n\".\" = \"write\"\n\"**/*.pem\" = \"none\"\n"
	// codex refuses a home for temporary files.
	home, err := os.MkdirTemp(cacheDir(), "gander-bench-codex-")
	if err == nil {
		b.t.Cleanup(func() { _ = os.RemoveAll(home) })
		err = os.WriteFile(filepath.Join(home, "config.toml"), []byte(profile), 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return []string{"env", "CODEX_HOME=" + home, "codex", "sandbox", "-P", "bench", "--", "bash", "-c"}
}

func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "" // codex says why it does not like it
	}
	return dir
}

// srtArgs is sandbox-runtime with each ignored file closed: on Linux it knows no patterns.
func (b *bench) srtArgs(dir string) []string {
	b.t.Helper()
	closed, err := filepath.Glob(filepath.Join(dir, "part*", "*.pem"))
	if err == nil && len(closed) != 100 {
		err = fmt.Errorf("%d files are to be closed", len(closed))
	}
	var settings []byte
	if err == nil {
		settings, err = json.Marshal(map[string]any{
			"network":    map[string]any{"allowedDomains": []string{}, "deniedDomains": []string{}},
			"filesystem": map[string]any{"denyRead": closed, "allowWrite": []string{dir}, "denyWrite": []string{}},
		})
	}
	file := filepath.Join(b.mkdir("srt"), "settings.json")
	if err == nil {
		err = os.WriteFile(file, settings, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return []string{"srt", "-s", file, "-c"}
}

// sameTree measures what a large tree costs a command that has nothing to do with it.
func (b *bench) sameTree() {
	large, small := b.project("large", 240_000, b.size(10_000)), b.project("small", 20, 0)
	inLarge, inSmall := b.ruled(large), b.ruled(small)
	defer inLarge.Close()
	defer inSmall.Close()
	var ours, theirs samples
	alternate(b.runs(100),
		timed(&ours, func() { b.inside(inLarge, "bash", "-c", "true") }),
		timed(&theirs, func() { b.inside(inSmall, "bash", "-c", "true") }))
	files := b.size(240_000) + b.size(10_000)
	b.table.atMost(1.1, pair{fmt.Sprintf("`true` in a tree of %d files, %d of them ignored, beside one of 20 files", files, b.size(10_000)), ours, theirs, inMS})
	b.sameLinked(large, files)
}

// sameLinked measures what the first open of a file with several links costs a sandbox,
// which has to know all of the closed files then.
func (b *bench) sameLinked(dir string, files int) {
	if err := os.Link(filepath.Join(dir, "part0/package0/file0.txt"), filepath.Join(dir, "linked")); err != nil {
		b.t.Fatal(err)
	}
	var first, second samples
	for range b.runs(10) {
		sb := b.ruled(dir)
		b.inside(sb, "true")
		alternate(1, timed(&first, func() { b.inside(sb, "cat", "linked") }), timed(&second, func() { b.inside(sb, "cat", "linked") }))
		_ = sb.Close()
	}
	b.table.tell(pair{fmt.Sprintf("`cat` of a hard-linked file in a tree of %d files for the first time in a sandbox, beside the second time", files), first, second, inMS})
}

// samePool measures from session/new to the end of a turn, with a container that was
// made ahead and an agent that answers at once, beside docker run of the same image.
func (b *bench) samePool() {
	flooder := b.program(flooderName)
	home := b.mkdir("pooled")
	config, err := json.Marshal(map[string]any{
		"agent":   "flooder",
		"agents":  map[string]any{"flooder": map[string]any{"command": []string{flooder}, "readOnlyPaths": []string{flooder}}},
		"sandbox": map[string]any{"driver": "docker", "image": image, "pool": 1},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "config.json"), config, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := b.command([]string{"GANDER_HOME=" + home, "LLM_HOST=" + b.host, "LLM_API_KEY=" + b.key, "FLOODER_MODEL=gpt-4o"}, b.gander, "acp")
	c := start(b.t, cmd)
	defer c.stop()
	c.open(cmd.Dir)
	c.finish(floodPrompt+"chunks 1", nil)
	b.table.atMost(0.25, b.bounded(0.25, func() pair {
		var pooled, plain samples
		alternate(b.rounds(11, 3),
			func() {
				b.awaitSpare(home)
				begun := time.Now()
				c.newSession(cmd.Dir)
				c.finish(floodPrompt+"chunks 1", nil)
				pooled.took(begun)
				c.request("session/close", map[string]any{"sessionId": c.session}, nil)
			},
			timed(&plain, func() { b.outside(cmd.Dir, "docker", "run", "--rm", "--network", "none", image, "true") }))
		return pair{"session/new → end of the first turn in a container from the pool, beside `docker run` of `true`", pooled, plain, inMS}
	}))
}

// awaitSpare waits until there is a container besides the first session's.
func (b *bench) awaitSpare(home string) {
	b.t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > patience {
			b.t.Fatal("no sandbox is made ahead")
		}
		if ids := strings.Fields(b.outside(home, "docker", "ps", "-q", "--filter", "label=gander.home="+home)); len(ids) == 2 {
			break
		}
	}
	time.Sleep(time.Second) // its supervisor is set up, and the machine still
}

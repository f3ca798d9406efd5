package editor

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What git makes of two files turns the first into the second, whatever the
// context, also when the file has moved on above the changes. The seed is fixed:
// a failure can be seen again.
func TestPatchesOfGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("GANDER_CHECK") != "" {
			t.Fatal(err)
		}
		t.Skip("git is not installed")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		b := newBench(t)
		old := randomText(r)
		new := randomlyEdited(r, old)
		b.put("old/f", old)
		b.put("new/f", new)
		context := []int{0, 1, 3, 10}[i%4]
		if context == 0 && strings.Contains(old, "\r") {
			continue // without context a diff does not say how lines end
		}
		diff := b.git(context)
		if diff == "" {
			continue
		}
		diff = strings.NewReplacer("a/old/", "a/", "b/new/", "b/", "a/new/", "a/", "b/old/", "b/").Replace(diff)
		if _, err := b.Patch(b.fs, "old", diff); err != nil {
			t.Errorf("round %d: %v\n%s\n%q", i, err, diff, old)
			continue
		}
		b.has("old/f", new)
		b.undo("old/f")
		b.has("old/f", old)

		if context < 3 || old == "" {
			continue
		}
		above := fmt.Sprintf("unique %d\n", i)
		b.put("old/f", above+old)
		if _, err := b.Patch(b.fs, "old", diff); err == nil {
			b.has("old/f", above+new)
		} else if !strings.Contains(err.Error(), "places") {
			t.Errorf("round %d, moved: %v\n%s\n%q", i, err, diff, old)
		}
	}
}

func (b *bench) git(context int) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "git", "-c", "core.autocrlf=false", "diff", "--no-index", "--no-ext-diff", "--no-color", fmt.Sprintf("-U%d", context), "old/f", "new/f")
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_DIR="+b.path("none"))
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
		b.t.Fatalf("git: %v", err)
	}
	return string(out)
}

// randomText has lines that occur several times, in several styles.
func randomText(r *rand.Rand) string {
	var b strings.Builder
	n := r.IntN(60)
	style := r.IntN(3)
	for i := range n {
		fmt.Fprintf(&b, "line %d", r.IntN(n+1))
		switch {
		case i == n-1 && r.IntN(3) == 0:
		case style == 1 || style == 2 && r.IntN(2) == 0:
			b.WriteString("\r\n")
		default:
			b.WriteString("\n")
		}
	}
	return b.String()
}

// randomlyEdited takes out, puts in and changes some lines in the style around them.
func randomlyEdited(r *rand.Rand, s string) string {
	lines := split(s)
	for range 1 + r.IntN(5) {
		at := r.IntN(len(lines) + 1)
		to := min(len(lines), at+r.IntN(3))
		var repl strings.Builder
		for range r.IntN(3) {
			fmt.Fprintf(&repl, "new %d\n", r.IntN(1000))
		}
		if at == len(lines) && len(lines) > 0 && lines[at-1].end == "" {
			continue
		}
		lines = splice(lines, at, to, repl.String())
	}
	return string(text{lines: lines}.bytes())
}

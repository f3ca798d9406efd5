package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/ignore"
)

// clockStep is longer than what the change times of files go in.
const clockStep = 3 * time.Second

// sameLook measures a look at a repository that nobody changed, as before and after
// every turn, beside a warm git status.
func (b *bench) sameLook() {
	files := 5000
	if b.full {
		files = 50_000
	}
	dir, err := filepath.EvalSymlinks(b.repository(files))
	if err != nil {
		b.t.Fatal(err)
	}
	rules, err := ignore.NewSet(ignore.SetOptions{Root: dir})
	if err != nil {
		b.t.Fatal(err)
	}
	tree, err := changes.Open(changes.Options{Root: dir, Dir: b.t.TempDir(), Rules: rules, Time: time.Minute})
	if err != nil {
		b.t.Fatal(err)
	}
	defer tree.Close()
	look := func() {
		if _, err := tree.Begin(context.Background()); err != nil {
			b.t.Fatal(err)
		}
	}
	status := func() { b.git(dir, "status", "--porcelain") }
	look()
	time.Sleep(clockStep) // what is as young as that is read again, by git too
	look()
	status()
	var ours, theirs samples
	timed := func(do func(), s *samples) func() {
		return func() {
			begun := time.Now()
			do()
			s.took(begun)
		}
	}
	alternate(b.runs(21), timed(look, &ours), timed(status, &theirs))
	b.table.atMost(1.5, pair{fmt.Sprintf("comparing %d files that nobody changed, beside `git status`", files), ours, theirs, inMS})
}

// repository is one of so many committed files, ten in a directory.
func (b *bench) repository(files int) string {
	dir := b.t.TempDir()
	text := make([]byte, 2000)
	for i := range text {
		text[i] = "some text of a program\n"[i%23]
	}
	for i := range files / 10 {
		at := filepath.Join(dir, fmt.Sprintf("part%d", i%20), fmt.Sprintf("pkg%d", i%200), fmt.Sprintf("sub%d", i))
		if err := os.MkdirAll(at, 0o755); err != nil {
			b.t.Fatal(err)
		}
		for j := range 10 {
			name := filepath.Join(at, fmt.Sprintf("file%d.go", j))
			if err := os.WriteFile(name, fmt.Appendf(text[:len(text):len(text)], "%d %d\n", i, j), 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.git(dir, "init", "-q", ".")
	b.git(dir, "add", "-A")
	b.git(dir, "commit", "-qm", "first")
	return dir
}

func (b *bench) git(dir string, args ...string) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

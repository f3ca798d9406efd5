package changes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/ignore"
)

// BenchmarkLook is one look at a repository of 50,000 files in 5,000 directories
// that nobody changed, beside a warm git status of the same.
func BenchmarkLook(b *testing.B) {
	dir := repository(b)
	set, err := ignore.NewSet(ignore.SetOptions{Root: dir})
	if err != nil {
		b.Fatal(err)
	}
	tree, err := changes.Open(changes.Options{Root: dir, Dir: filepath.Join(b.TempDir(), "store"), Rules: set, Time: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Close()
	first := time.Now()
	if err := tree.Prepare(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Logf("the first look, which reads and keeps everything: %v", time.Since(first))
	b.Run("gander", func(b *testing.B) {
		for b.Loop() {
			if _, err := tree.Begin(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("git", func(b *testing.B) {
		for b.Loop() {
			if out, err := git(dir, "status", "--porcelain"); err != nil || len(out) > 0 {
				b.Fatalf("%s, %v", out, err)
			}
		}
	})
}

func git(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", append([]string{"-c", "maintenance.auto=false"}, args...)...) // which would go on behind the benchmark
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	return cmd.CombinedOutput()
}

// repository is one of 50,000 committed files, older than any clock's step.
func repository(b *testing.B) string {
	b.Helper()
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	text := make([]byte, 2000)
	for i := range text {
		text[i] = "some text of a program\n"[i%23]
	}
	for i := range 5000 {
		at := filepath.Join(dir, fmt.Sprintf("part%d", i%20), fmt.Sprintf("pkg%d", i%200), fmt.Sprintf("sub%d", i))
		if err := os.MkdirAll(at, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 10 {
			content := fmt.Appendf(text[:len(text):len(text)], "%d %d\n", i, j)
			if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("file%d.go", j)), content, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"add", "-A"}, {"commit", "-qm", "first"}, {"status"}} {
		if out, err := git(dir, args...); err != nil {
			b.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	time.Sleep(3 * time.Second) // the clock's step: files as young as that are read again, by git too
	if out, err := git(dir, "status"); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return dir
}

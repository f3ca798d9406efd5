package bench

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gitignore "github.com/sabhiram/go-gitignore"

	"gander.dev/gander/developer/files"
	"gander.dev/gander/sandbox/rules/ignore"
)

// The rules of an ordinary project.
const rules = "**/.env\n**/.env.*\n**/secrets.*\n*.pem\n*.key\n!public.key\nnode_modules/\n/dist/\ndocs/private/**\n*.[oa]\n"

// A forest is 20,000 files in 2,000 directories, nearly all of them visible.
func forest(b *testing.B) string {
	b.Helper()
	top := b.TempDir()
	for i := range 2000 {
		dir := filepath.Join(top, fmt.Sprintf("part%d", i%20), fmt.Sprintf("pkg%d", i%200), fmt.Sprintf("sub%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"main.go", "main_test.go", "readme.md", "a.ts", "b.ts", "index.html", "data.json", "x.key", ".env", "types.d.ts"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(top, ".gooseignore"), []byte(rules), 0o644); err != nil {
		b.Fatal(err)
	}
	return top
}

// BenchmarkIgnoreWalk walks the forest as the developer tools do, and as one would
// with go-gitignore and nothing else.
func BenchmarkIgnoreWalk(b *testing.B) {
	top := forest(b)
	b.Run("gander", func(b *testing.B) {
		set, err := ignore.NewSet(ignore.SetOptions{Root: top})
		if err != nil {
			b.Fatal(err)
		}
		space, err := files.New(files.Options{WorkingDir: top, Rules: set})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			n := 0
			err := space.Walk(b.Context(), ".", func(_ string, d fs.DirEntry) error {
				if !d.IsDir() {
					n++
				}
				return nil
			})
			if err != nil || n != 16_001 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("WalkDir+go-gitignore", func(b *testing.B) {
		compiled := gitignore.CompileIgnoreLines(strings.Split(rules, "\n")...)
		for b.Loop() {
			n := 0
			err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if compiled.MatchesPath(strings.TrimPrefix(path, top+"/")) {
					if d.IsDir() {
						return fs.SkipDir
					}
					return nil
				}
				if !d.IsDir() {
					n++
				}
				return nil
			})
			if err != nil || n != 16_001 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("WalkDir alone", func(b *testing.B) {
		for b.Loop() {
			if err := filepath.WalkDir(top, func(string, fs.DirEntry, error) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkIgnoreDecision is one decision of the kernel layer, whose files it has
// seen before or not.
func BenchmarkIgnoreDecision(b *testing.B) {
	for _, tt := range []struct{ name, rules string }{
		{"defaults", ignore.Defaults}, {"names", strings.ReplaceAll(rules, "*.[oa]\n", "")}, {"expressions", rules},
	} {
		m := ignore.Compile([]ignore.Source{{Text: tt.rules}}, ignore.Options{})
		b.Run(tt.name, func(b *testing.B) {
			paths := make([]string, 4096)
			for i := range paths {
				paths[i] = fmt.Sprintf("part%d/pkg%d/sub%d/main%d.go", i%20, i%200, i, i)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i++; m.Ignored(paths[i%len(paths)], false) {
					b.Fatal("it is not hidden")
				}
			}
		})
	}
}

// BenchmarkIgnoreSet is a decision with the look at the rules before it: at every
// time, as the tools do, or at most every 50 ms, as the kernel layer does.
func BenchmarkIgnoreSet(b *testing.B) {
	top := forest(b)
	old := time.Now().Add(-time.Hour) // nobody is writing the rules
	if err := os.Chtimes(filepath.Join(top, ".gooseignore"), old, old); err != nil {
		b.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		age  time.Duration
	}{{"always", 0}, {"every 50 ms", 50 * time.Millisecond}} {
		b.Run(tt.name, func(b *testing.B) {
			set, err := ignore.NewSet(ignore.SetOptions{Root: top, MaxAge: tt.age})
			if err != nil {
				b.Fatal(err)
			}
			paths := make([]string, 2000)
			for i := range paths {
				paths[i] = filepath.Join(top, fmt.Sprintf("part%d/pkg%d/sub%d/main.go", i%20, i%200, i))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i++; set.Ignored(paths[i%len(paths)], false) {
					b.Fatal("it is not hidden")
				}
			}
		})
	}
}

package analyze

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gander.dev/gander/developer/files"
)

// The benchmarks compare an overview with what cannot be left out: reading and
// parsing the same files, by as many workers. GANDER_BENCH_SOURCES is a list of
// directories; without it, this module is measured.
func benchDirs() []string {
	if list := os.Getenv("GANDER_BENCH_SOURCES"); list != "" {
		return filepath.SplitList(list)
	}
	return []string{"../.."}
}

func BenchmarkOverview(b *testing.B) {
	for _, dir := range benchDirs() {
		dir, err := filepath.Abs(dir)
		if err != nil {
			b.Fatal(err)
		}
		space, err := files.New(files.Options{WorkingDir: dir})
		if err != nil {
			b.Fatal(err)
		}
		paths := sources(b, space, dir)
		b.Run(filepath.Base(dir)+"/bare", func(b *testing.B) {
			for b.Loop() {
				bare(b, paths)
			}
			b.ReportMetric(float64(len(paths)), "files")
		})
		forgetful := New(Options{CacheSymbols: 1}) // has its grammars, and caches no file
		b.Run(filepath.Base(dir)+"/analyze", func(b *testing.B) {
			for b.Loop() {
				if _, err := forgetful.Current(b.Context(), space, Request{Path: dir, Dir: true, Force: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
		known := New(Options{})
		b.Run(filepath.Base(dir)+"/again", func(b *testing.B) {
			for b.Loop() {
				if _, err := known.Current(b.Context(), space, Request{Path: dir, Dir: true, Force: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// sources are the files that an overview parses.
func sources(b *testing.B, space *files.Space, dir string) (paths []string) {
	a := New(Options{})
	all, err := a.scan(b.Context(), space, Request{Path: dir, Dir: true})
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range all {
		if !f.unparsed && f.problem == "" && !f.hidden() {
			paths = append(paths, f.path)
		}
	}
	return paths
}

func bare(b *testing.B, paths []string) {
	a := New(Options{})
	queue := make(chan string)
	var workers sync.WaitGroup
	for range a.o.Workers {
		workers.Go(func() {
			parsers := map[string]fileParser{}
			for path := range queue {
				src, err := os.ReadFile(path)
				if err != nil {
					b.Error(err)
					continue
				}
				name := tag(path)
				if parsers[name] == nil {
					p, err := a.languages[name].newParser()
					if err != nil {
						b.Error(err)
						continue
					}
					parsers[name] = p
				}
				parseOnly(b.Context(), parsers[name], src)
			}
			for _, p := range parsers {
				p.close()
			}
		})
	}
	for _, path := range paths {
		queue <- path
	}
	close(queue)
	workers.Wait()
}

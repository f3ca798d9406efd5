package analyze

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"gander.dev/gander/developer/files"
)

// notText is the problem of files that are not UTF-8.
const notText = "not text"

// A file is one that was looked at.
type file struct {
	// path is absolute, name is relative to the directory that was asked about.
	path, name string
	tag        string
	family     string
	*facts
	// problem says why there are no facts but the count of lines; empty when the
	// file was parsed, or when nothing can parse its kind.
	problem string
	// unparsed says that there is no parser for the file.
	unparsed bool
}

// main is the line of the function that is called main, or 0.
func (f *file) main(to audience) int {
	for _, s := range f.funcs {
		if s.name == "main" && s.to.has(to) {
			return s.line
		}
	}
	return 0
}

// scan reads a directory, maxDepth levels of it, or one file. The files come back
// sorted, as a walk would meet them.
func (a *Analyzer) scan(ctx context.Context, space *files.Space, r Request) ([]*file, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	base := r.Path
	if !r.Dir {
		base = filepath.Dir(r.Path)
	}
	paths := make(chan string, 64)
	found := make([][]*file, a.o.Workers)
	var workers sync.WaitGroup
	for i := range found {
		workers.Go(func() {
			w := worker{a: a, parsers: map[string]fileParser{}}
			defer w.close()
			for path := range paths {
				if ctx.Err() == nil {
					found[i] = append(found[i], w.file(ctx, space, path, base))
				}
			}
		})
	}
	err := a.walk(ctx, space, r, paths)
	close(paths)
	workers.Wait()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := slices.Concat(found...)
	slices.SortFunc(all, func(a, b *file) int { return comparePaths(a.name, b.name) })
	return all, nil
}

// walk sends the paths of the files that are worth a look.
func (a *Analyzer) walk(ctx context.Context, space *files.Space, r Request, paths chan<- string) error {
	if !r.Dir {
		paths <- r.Path
		return nil
	}
	git := newGitIgnore(space, r.Path)
	return space.Walk(ctx, r.Path, func(path string, d fs.DirEntry) error {
		if path == r.Path {
			return nil
		}
		rel, err := filepath.Rel(r.Path, path)
		if err != nil {
			return err
		}
		depth := uint32(strings.Count(rel, string(filepath.Separator)) + 1)
		switch {
		case d.IsDir() && (r.MaxDepth != 0 && depth >= r.MaxDepth || skipped(d.Name()) || isCache(space, path) || git.hides(path, true)):
			return fs.SkipDir
		case !d.Type().IsRegular(), git.hides(path, false):
			return nil
		}
		select {
		case paths <- path:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// skipped says which directories hold what others wrote or what a build made; who
// asks for one of them by its path gets it.
func skipped(dir string) bool {
	switch dir {
	case "node_modules", "bower_components", "vendor", "Pods", "Carthage", "__pycache__",
		"venv", ".venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".gradle", ".idea", ".next", ".terraform", ".cargo":
		return true
	}
	return false
}

// isCache says whether a directory has the mark of a cache (bford.info/cachedir),
// as the target directories of Cargo have.
func isCache(space *files.Space, dir string) bool {
	_, err := space.Stat(filepath.Join(dir, "CACHEDIR.TAG"))
	return err == nil
}

// comparePaths compares name by name, so that a directory's files stay together.
func comparePaths(a, b string) int {
	separator := string(filepath.Separator)
	return slices.Compare(strings.Split(a, separator), strings.Split(b, separator))
}

// A worker parses one file at a time.
type worker struct {
	a       *Analyzer
	parsers map[string]fileParser
}

func (w *worker) close() {
	for _, p := range w.parsers {
		p.close()
	}
}

// file looks at one file; whatever is wrong with it is part of the answer.
func (w *worker) file(ctx context.Context, space *files.Space, path, base string) *file {
	f := &file{path: path, name: path, tag: tag(path), facts: &facts{}}
	if rel, err := filepath.Rel(base, path); err == nil {
		f.name = rel
	}
	l := w.a.languages[f.tag]
	f.unparsed = l == nil
	if f.tag == "" {
		return f
	}
	src, _, err := space.ReadFile(path, w.a.o.FileBytes)
	switch {
	case err != nil:
		f.problem = readProblem(err)
	case bytes.IndexByte(src, 0) >= 0 || !utf8.Valid(src):
		f.problem = notText
	case l == nil:
		f.facts = &facts{lines: indexLines(src).count()}
	default:
		f.family = l.family
		if f.family == "" {
			f.family = l.name
		}
		f.facts, err = w.facts(ctx, l, src)
		if err != nil {
			w.a.o.Log.Warn("a file was not analysed", "file", path, "error", err)
			f.facts, f.problem = &facts{lines: indexLines(src).count()}, err.Error()
		}
	}
	return f
}

func readProblem(err error) string {
	switch _, large := errors.AsType[*files.TooLargeError](err); {
	case large:
		return "too large"
	case errors.Is(err, fs.ErrNotExist):
		return "gone"
	}
	return "unreadable"
}

// facts parses a content that is not known yet.
func (w *worker) facts(ctx context.Context, l *language, src []byte) (*facts, error) {
	key := cacheKey{l.name, sha256.Sum256(src)}
	if f := w.a.cache.get(key); f != nil {
		return f, nil
	}
	if w.a.runaways.count() >= maxRunaways {
		return nil, errors.New("the parsers are still busy with files that take too long; ask again later")
	}
	p := w.parsers[l.name]
	if p == nil {
		var err error
		if p, err = l.newParser(); err != nil {
			return nil, err
		}
		w.parsers[l.name] = p
	}
	ctx, cancel := context.WithTimeout(ctx, w.a.o.FileTime)
	defer cancel()
	f, err := w.a.runaways.parse(ctx, p, src)
	if err == nil {
		w.a.cache.put(key, f)
		return f, nil
	}
	// A parser of tree-sitter that was stopped while it balanced a tree ends the
	// program when it is used again: none is, that failed.
	delete(w.parsers, l.name)
	if !errors.Is(err, errRunaway) { // which is closed when it comes back
		p.close()
	}
	return nil, err
}

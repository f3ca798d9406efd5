package confine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gander.dev/gander/sandbox"
)

// Bounds of what git prints of all repositories, and of what is left out.
const (
	maxListing = 1 << 30 // bytes of one history
	maxObjects = 4 << 20
	maxClosed  = 20000 // objects that are left out
	maxLine    = 64 << 10
)

// filtering is the making of stores for all repositories. All are listed before any is
// packed: what one of them has had at a closed path is left out of each.
type filtering struct {
	ctx    context.Context
	sb     sandbox.Sandbox
	keeper sandbox.RuleKeeper
	roots  []string // where repositories are, the project first, by their real names

	stores   []*objectStore
	closed   map[string]bool // content that was seen at a closed path, by its id
	verdicts map[string]bool // closed, by path
	waiting  []located       // for verdicts
	seen     int             // content, in all stores
}

// objectStore is where repositories have their objects.
type objectStore struct {
	path  string // absolute
	repos []sandbox.Repository
	open  map[string]bool // content that was seen at an open path
}

// located is content of a store's at a path.
type located struct {
	store    *objectStore
	id, path string
}

// filter has git write packs into the sandbox's home, of all commits, trees and tags
// that a reference, or its log, leads to, and of the content that was seen at open paths
// and at no closed one. It returns the repositories' own object stores; the pack of each
// is in a directory with its number.
func (f *filtering) filter(repos []sandbox.Repository) (objects []string, err error) {
	for _, r := range repos {
		if err := f.list(r); err != nil {
			return nil, inRepository(r, err)
		}
	}
	if err := f.judge(); err != nil {
		return nil, err
	}
	if n := len(f.left()); n > maxClosed {
		return nil, fmt.Errorf("%d objects would have to be left out, which are too many", n)
	}
	for i, s := range f.stores {
		if len(s.repos) == 0 {
			return nil, fmt.Errorf("git's objects in %s are only those of linked work trees", Printable(s.path))
		}
		objects = append(objects, s.path)
		if err := f.pack(s, filepath.Join(f.sb.Info().Home, strconv.Itoa(i))); err != nil {
			return nil, inRepository(s.repos[0], err)
		}
	}
	return objects, nil
}

// store is where a repository has its objects.
func (f *filtering) store(r sandbox.Repository) (*objectStore, error) {
	var lines []string
	if err := f.git(r, nil, nil, func(r io.Reader) error {
		return eachLine(r, func(l string) error { lines = append(lines, l); return nil })
	}, "rev-parse", "--path-format=absolute", "--git-path", "objects"); err != nil {
		return nil, err
	}
	if len(lines) != 1 {
		return nil, errors.New("git does not say where its objects are")
	}
	path := filepath.Clean(lines[0])
	if strings.ContainsAny(path, ":\"\n") || !slices.ContainsFunc(f.roots, func(root string) bool {
		rel, err := filepath.Rel(root, path)
		return err == nil && filepath.IsLocal(rel)
	}) {
		return nil, fmt.Errorf("git's objects are in %s, which cannot be worked with", Printable(path))
	}
	for _, s := range f.stores {
		if s.path == path {
			return s, nil
		}
	}
	s := &objectStore{path: path, open: map[string]bool{}}
	f.stores = append(f.stores, s)
	return s, nil
}

// list sees all content that a repository has, with the paths that it has or has had.
func (f *filtering) list(r sandbox.Repository) error {
	s, err := f.store(r)
	if err != nil {
		return err
	}
	see := func(mode, id, path string) error { return f.see(s, mode, id, inProject(r, path)) }
	if err := f.git(r, nil, nil, func(r io.Reader) error { return readIndex(r, see) }, "ls-files", "-s", "-z"); err != nil || r.Linked {
		return err
	}
	s.repos = append(s.repos, r)
	if err := f.git(r, nil, nil, func(r io.Reader) error { return readLog(r, see) },
		"log", "--all", "--reflog", "-m", "--raw", "--no-abbrev", "--no-renames", "--no-relative", "--root", "-z", "--format="); err != nil {
		return err
	}
	trees, err := taggedTrees(f.ctx, f.sb, r)
	for _, id := range trees {
		err = errors.Join(err, f.git(r, nil, nil, func(r io.Reader) error { return readTree(r, see) }, "ls-tree", "-r", "-z", "--full-tree", id))
	}
	return err
}

// readTree reads "mode type id\tpath" records.
func readTree(r io.Reader, see func(mode, id, path string) error) error {
	return eachToken(r, maxListing, func(t string) error {
		head, path, ok := strings.Cut(t, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 3 {
			return errors.New("git's tree is not to be understood")
		}
		return see(fields[0], fields[2], path)
	})
}

// readIndex reads "mode id stage\tpath" records.
func readIndex(r io.Reader, see func(mode, id, path string) error) error {
	return eachToken(r, maxListing, func(t string) error {
		head, path, ok := strings.Cut(t, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 3 {
			return errors.New("git's index is not to be understood")
		}
		return see(fields[0], fields[1], path)
	})
}

// readLog reads records of ":mode mode id id status" and a path.
func readLog(r io.Reader, see func(mode, id, path string) error) error {
	var head []string
	return eachToken(r, maxListing, func(t string) error {
		if head == nil {
			if t = strings.TrimLeft(t, "\n"); t == "" {
				return nil
			}
			if head = strings.Fields(strings.TrimPrefix(t, ":")); len(head) != 5 || t[0] != ':' {
				return errors.New("git's log is not to be understood")
			}
			return nil
		}
		err := errors.Join(see(head[0], head[2], t), see(head[1], head[3], t))
		head = nil
		return err
	})
}

// modeSubmodule is the mode of an entry that is another repository's commit.
const modeSubmodule = "160000"

func (f *filtering) see(s *objectStore, mode, id, path string) error {
	switch {
	case strings.TrimLeft(mode, "0") == "" || mode == modeSubmodule:
		return nil
	case !isObjectID(id):
		return fmt.Errorf("git names an object %s", Printable(id))
	case f.seen+len(f.verdicts) > maxObjects:
		return errors.New("the repository has more objects than are looked at")
	}
	if closed, known := f.verdicts[path]; known {
		f.mark(s, id, closed)
		return nil
	}
	f.waiting = append(f.waiting, located{s, id, path})
	if len(f.waiting) < judgeAtOnce {
		return nil
	}
	return f.judge()
}

func (f *filtering) mark(s *objectStore, id string, closed bool) {
	seen := s.open
	if closed {
		seen = f.closed
	}
	if !seen[id] {
		seen[id] = true
		f.seen++
	}
}

// judge has the rules decide about the paths that wait.
func (f *filtering) judge() error {
	paths := make([]string, len(f.waiting))
	for i, w := range f.waiting {
		paths[i] = w.path
	}
	closed, err := f.keeper.Judge(f.ctx, paths)
	if err != nil {
		return err
	}
	for i, w := range f.waiting {
		f.verdicts[w.path] = closed[i]
		f.mark(w.store, w.id, closed[i])
	}
	f.waiting = f.waiting[:0]
	return nil
}

// isObjectID says whether git could name an object so, by SHA-1 or SHA-256.
func isObjectID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}

// isEmptyBlob says whether an id is that of no content, which tells nothing.
func isEmptyBlob(id string) bool {
	return id == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391" || id == "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
}

// hidden reports whether an object must be left out.
func (f *filtering) hidden(id string) bool { return f.closed[id] && !isEmptyBlob(id) }

// left are the objects that are left out, sorted.
func (f *filtering) left() (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(f.closed)) {
		if f.hidden(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// pack has git write a pack of a store into a directory.
func (f *filtering) pack(s *objectStore, dir string) error {
	in, out := io.Pipe()
	listed := make(chan error, 1)
	go func() { // ends with the reader, which pack-objects' end closes
		w := bufio.NewWriter(out)
		err := errors.Join(f.packed(s, w), w.Flush())
		_ = out.CloseWithError(err)
		listed <- err
	}()
	err := f.git(s.repos[0], []string{"GIT_OBJECT_DIRECTORY=" + dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + s.path}, in,
		func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err },
		"pack-objects", "-q", filepath.Join(dir, "pack", "pack"))
	_ = in.CloseWithError(context.Canceled)
	return errors.Join(err, <-listed)
}

// packed lists what a store's pack has.
func (f *filtering) packed(s *objectStore, w io.Writer) error {
	add := func(id string) error {
		if f.hidden(id) {
			return nil
		}
		_, err := io.WriteString(w, id+"\n")
		return err
	}
	for _, r := range s.repos {
		if err := f.git(r, nil, nil, func(r io.Reader) error {
			return eachLine(r, func(id string) error {
				if !isObjectID(id) {
					return fmt.Errorf("git names an object %s", Printable(id))
				}
				return add(id)
			})
		}, "rev-list", "--objects", "--no-object-names", "--filter=blob:none", "--filter-provided-objects", "--all", "--reflog"); err != nil {
			return err
		}
	}
	for id := range s.open {
		if err := add(id); err != nil {
			return err
		}
	}
	return nil
}

// git runs git in the sandbox, in a repository: stdin, where there is one, is what it
// reads.
func (f *filtering) git(r sandbox.Repository, env []string, stdin io.Reader, output func(io.Reader) error, args ...string) error {
	return runGit(f.ctx, f.sb, gitCall{dir: r.Dir, args: args, env: env, stdin: stdin, output: output})
}

// eachLine passes on what git separates by newlines.
func eachLine(r io.Reader, each func(string) error) error {
	lines := bufio.NewScanner(io.LimitReader(r, maxListing))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := each(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

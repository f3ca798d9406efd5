package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Bounds of what is read of git's configuration. It is an error to have more.
const (
	maxGitConfig  = 1 << 20 // bytes of one file
	maxGitConfigs = 20_000  // files, with those that are included
	maxGitNamed   = 5000    // paths
	maxGitLinks   = 40      // on the way to a file
)

// How often, and after what time, a file is opened again that somebody has a lease on.
const (
	leaseTries = 20
	leaseTime  = 50 * time.Millisecond
)

var (
	// errOutside says that a path leads out of the directories that may be read.
	errOutside = errors.New("the path leads elsewhere")
	// errNoFile says that git could not read something either.
	errNoFile = errors.New("not a regular file")
)

// isAbsent reports whether an error says that there is nothing to read, for git neither.
func isAbsent(err error) bool {
	for _, absent := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, errOutside, errNoFile} {
		if errors.Is(err, absent) {
			return true
		}
	}
	return false
}

// errUnread says why it is not known what git's configuration names. What runs inside may
// make it readable again, so that nothing may run then.
func errUnread(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	todo := ""
	if errors.Is(err, fs.ErrPermission) {
		todo = "; give yourself read permission"
	}
	return fmt.Errorf("%s cannot be read (%w), and git may run what is named there%s", path, err, todo)
}

// gitReader collects what git's configuration names. It reads in some directories
// alone, and no link leads it out of them: it also works on this machine.
type gitReader struct {
	roots map[string]*os.Root
	seen  map[string]bool
	named []string // paths, absolute
	dirs  []string // git directories, absolute, that have work trees
	works []string // tops of these, absolute
	known map[string]bool
	err   error // why not all is known, the first reason
}

// openGit opens the directories, by their paths without links.
func openGit(dirs ...string) (*gitReader, error) {
	g := &gitReader{roots: map[string]*os.Root{}, seen: map[string]bool{}, known: map[string]bool{}}
	for _, dir := range dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			g.close()
			return nil, err
		}
		g.roots[dir] = root
	}
	return g, nil
}

// fail notes why not all is known.
func (g *gitReader) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

func (g *gitReader) close() {
	for _, root := range g.roots {
		_ = root.Close()
	}
}

// in is the innermost directory that a path is in, and the path relative to it.
func (g *gitReader) in(path string) (root *os.Root, dir, rel string) {
	for d, r := range g.roots {
		if s, err := filepath.Rel(d, path); err == nil && filepath.IsLocal(s) && len(d) >= len(dir) {
			root, dir, rel = r, d, s
		}
	}
	return root, dir, rel
}

// real is a path without links; false when it leads out of the directories. What is
// not there is no link.
func (g *gitReader) real(path string) (string, bool) {
	return g.follow(path, func(string) {})
}

// follow is real, and calls over with each link on the way, by its path without others.
func (g *gitReader) follow(path string, over func(link string)) (string, bool) {
	path = filepath.Clean(path)
	for range maxGitLinks {
		root, dir, rel := g.in(path)
		if root == nil {
			return "", false
		}
		next := path
		at := ""
		for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
			at = filepath.Join(at, name)
			target, err := root.Readlink(at)
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if errors.Is(err, fs.ErrPermission) {
				g.fail(errUnread(filepath.Join(dir, at), err))
			}
			if err != nil {
				continue // it is no link
			}
			over(filepath.Join(dir, at))
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, filepath.Dir(at), target)
			}
			next = filepath.Join(target, strings.TrimPrefix(rel, at))
			break
		}
		if next == path {
			return path, true
		}
		path = next
	}
	return "", false
}

// stat is about what a path leads to.
func (g *gitReader) stat(path string) (fs.FileInfo, error) {
	real, ok := g.real(path)
	if !ok {
		return nil, errOutside
	}
	root, _, rel := g.in(real)
	info, err := root.Lstat(rel)
	if errors.Is(err, fs.ErrPermission) {
		g.fail(errUnread(real, err))
	}
	return info, err
}

func (g *gitReader) has(dir, name string) bool {
	_, err := g.stat(filepath.Join(dir, name))
	return err == nil
}

// read reads a regular file that may be somebody else's.
func (g *gitReader) read(path string) ([]byte, error) {
	real, ok := g.real(path)
	if !ok {
		return nil, errOutside
	}
	root, _, rel := g.in(real)
	text, err := readPlain(func(flags int) (*os.File, error) { return root.OpenFile(rel, flags, 0) })
	if err != nil && !isAbsent(err) {
		g.fail(errUnread(real, err))
	}
	return text, err
}

// readPlain opens and reads a regular file that may be somebody else's. It waits for no
// other end of a pipe, and not long for who has a lease.
func readPlain(open func(flags int) (*os.File, error)) ([]byte, error) {
	f, err := open(os.O_RDONLY | syscall.O_NONBLOCK)
	for tries := 1; errors.Is(err, syscall.EAGAIN) && tries < leaseTries; tries++ {
		time.Sleep(leaseTime)
		f, err = open(os.O_RDONLY | syscall.O_NONBLOCK)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNoFile
	case info.Size() > maxGitConfig:
		return nil, fmt.Errorf("it is larger than %d bytes", maxGitConfig)
	}
	return io.ReadAll(io.LimitReader(f, maxGitConfig))
}

// gitDir is the git directory of a work tree: .git, or where that leads to as a link or
// a file.
func (g *gitReader) gitDir(tree string) string {
	dir := filepath.Join(tree, ".git")
	if real, ok := g.real(dir); ok {
		dir = real
	}
	if text, err := g.read(dir); err == nil {
		if to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:"); ok {
			return from(tree, strings.TrimSpace(to))
		}
	}
	return dir
}

// repository collects what the configuration of a git directory names for a work tree,
// where its own entries and hooks lead to as links, and the directory itself unless it is a
// bare repository, which has no work tree.
func (g *gitReader) repository(dir, tree string) {
	r := gitRepo{dir: dir, common: dir, tree: tree}
	if text, err := g.read(filepath.Join(dir, "commondir")); err == nil {
		r.common = from(dir, strings.TrimSpace(string(text)))
	}
	if dir != tree {
		g.dirs, g.works = append(g.dirs, r.dir, r.common), append(g.works, tree)
	}
	for _, in := range slices.Compact([]string{r.dir, r.common}) {
		for _, name := range []string{"config", "config.worktree", "hooks", "modules", "worktrees", "commondir", "remotes", "branches"} {
			g.linked(filepath.Join(in, name))
		}
		g.linkedIn(filepath.Join(in, "hooks"))
	}
	for _, path := range []string{filepath.Join(r.dir, "config"), filepath.Join(r.dir, "config.worktree"), filepath.Join(r.common, "config")} {
		g.config(path, r)
	}
}

// linked collects where a path leads to, if that is elsewhere.
func (g *gitReader) linked(path string) {
	if real, ok := g.real(path); ok && real != path {
		g.add(real)
	}
}

// linkedIn collects where the links in a directory lead to: to write there is to write here.
func (g *gitReader) linkedIn(dir string) {
	real, ok := g.real(dir)
	if !ok {
		return
	}
	root, _, rel := g.in(real)
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		defer func() { _ = f.Close() }()
	}
	for err == nil {
		var entries []fs.DirEntry
		entries, err = f.ReadDir(1000) // there may be as many as programs inside like
		for _, e := range entries {
			if e.Type()&fs.ModeSymlink != 0 {
				g.linked(filepath.Join(real, e.Name()))
			}
		}
	}
	if !errors.Is(err, io.EOF) && !isAbsent(err) {
		g.fail(errUnread(real, err))
	}
}

// gitRepo is where git takes relative paths of a configuration from: the top of the work
// tree, and the git directories when it runs there, as it does for a push to the repository.
type gitRepo struct{ dir, common, tree string }

// anywhere is what a path in the configuration can mean, wherever git takes it from. What git
// itself keeps at it in its directories is left out.
func (r gitRepo) anywhere(path string) []string {
	all := []string{from(r.tree, path)}
	if filepath.IsAbs(path) || strings.HasPrefix(path, "~/") {
		return all
	}
	for _, dir := range []string{r.dir, r.common} {
		at := from(dir, path)
		rel, err := filepath.Rel(dir, at)
		first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		if err == nil && !slices.Contains(gitWrites(), first) && !strings.HasSuffix(first, "HEAD") && !strings.HasSuffix(first, "MSG") {
			all = append(all, at)
		}
	}
	return all
}

// isBelow reports whether the repository, or its work tree, is a directory or in it.
func (r gitRepo) isBelow(at string) bool {
	return slices.ContainsFunc([]string{r.tree, r.dir, r.common}, func(own string) bool {
		rel, err := filepath.Rel(at, own)
		return err == nil && filepath.IsLocal(rel)
	})
}

// anywhere collects a file that the configuration of a repository names.
func (g *gitReader) anywhere(path string, r gitRepo) {
	for _, at := range r.anywhere(path) {
		if !r.isBelow(at) {
			g.add(at)
		}
	}
}

// directory collects a directory of hooks, or of other code, that the configuration of a
// repository names, and what the links in it lead to. Where all of the repository is in it,
// only what git takes for a hook there counts.
func (g *gitReader) directory(path string, r gitRepo) {
	for _, at := range r.anywhere(path) {
		if r.isBelow(at) {
			for _, hook := range gitHooks() {
				g.add(filepath.Join(at, hook))
			}
			continue
		}
		g.add(at)
		g.linkedIn(at)
	}
}

// gitHooks are the names of git's hooks (githooks(5)), and of those for git p4.
func gitHooks() []string {
	return []string{
		"applypatch-msg", "commit-msg", "fsmonitor-watchman", "p4-changelist", "p4-post-changelist", "p4-pre-submit", "p4-prepare-changelist",
		"post-applypatch", "post-checkout", "post-commit", "post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update",
		"pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase", "pre-receive", "prepare-commit-msg",
		"proc-receive", "push-to-checkout", "reference-transaction", "sendemail-validate", "update",
	}
}

// gitWrites are entries of a git directory that git writes itself, besides heads and messages:
// an alias may name them, and nobody keeps a program there. That something is there already
// says nothing: it can be the agent's.
func gitWrites() []string {
	return []string{"refs", "logs", "objects", "index", "packed-refs", "shallow", "description"}
}

// config collects what a file of configuration names, and those that it includes,
// under whatever condition.
func (g *gitReader) config(path string, r gitRepo) {
	key := strings.Join([]string{path, r.dir, r.tree}, "\x00")
	if g.seen[key] {
		return
	}
	if len(g.seen) >= maxGitConfigs {
		g.fail(fmt.Errorf("there are more than %d files of git's configuration", maxGitConfigs))
		return
	}
	g.seen[key] = true
	text, err := g.read(path)
	if err != nil {
		return
	}
	settings := gitSettings(text)
	for _, s := range settings {
		if s.section == "core" && s.key == "worktree" {
			r.tree = from(r.dir, s.value)
		}
	}
	for _, s := range settings {
		if s.section == "url" && strings.HasPrefix(s.subsection, "ext::") { // what insteadOf stands for
			g.command(s.subsection, r)
		}
		switch {
		case s.value == "":
		case slices.Contains(directoryKeys(), s.key):
			g.directory(strings.TrimPrefix(s.value, ":(optional)"), r) // git 2.52
		case s.key == "path" && strings.HasPrefix(s.section, "include"):
			included := from(filepath.Dir(path), s.value)
			g.add(included)
			g.config(included, r)
		case s.runs():
			g.command(s.value, r)
		}
	}
}

// command collects the files of a work tree that a command names: git runs it there.
// What is no directory and could be made under a path counts, too.
func (g *gitReader) command(command string, r gitRepo) {
	isQuote := func(c rune) bool { return c == '"' || c == '\'' }
	separates := func(c rune) bool { return isQuote(c) || strings.ContainsRune(" \t\n;|&()<>{}$`=!", c) }
	for _, quoted := range append(strings.FieldsFunc(command, isQuote), command) {
		if path := from(r.tree, quoted); g.isFile(path) {
			g.anywhere(quoted, r)
		}
	}
	for _, word := range strings.FieldsFunc(command, separates) {
		word = strings.TrimPrefix(word, "ext::")
		path := from(r.tree, word)
		root, _, _ := g.in(path)
		switch _, err := g.stat(path); {
		case g.isFile(path), err != nil && root != nil && strings.Contains(word, "/") && !strings.HasSuffix(word, "/"):
			g.anywhere(word, r)
		case filepath.IsAbs(word) && g.isFile(filepath.Join(r.tree, word)): // "$(git rev-parse --show-toplevel)/tools/x"
			g.add(filepath.Join(r.tree, word))
		}
	}
}

func (g *gitReader) isFile(path string) bool {
	info, err := g.stat(path)
	return err == nil && info.Mode().IsRegular()
}

// add collects a path, and where it leads to.
func (g *gitReader) add(path string) {
	real, ok := g.real(path)
	for _, p := range []string{path, real} {
		switch {
		case p == real && !ok, g.known[p]:
		case len(g.named) >= maxGitNamed:
			g.fail(errNamed)
		default:
			g.known[p] = true
			g.named = append(g.named, p)
		}
	}
}

// errNamed says that more is named than can be protected.
var errNamed = fmt.Errorf("git's configuration names more than %d paths", maxGitNamed)

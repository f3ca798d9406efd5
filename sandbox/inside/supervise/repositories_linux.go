package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/policy"
)

// Bounds of looking for repositories: to look into them, and to protect what they name.
const (
	repositoriesTime = 10 * time.Second
	maxRepositories  = 64
	protectTime      = 30 * time.Second
	maxProtecting    = 5000
)

// repositories implements keeper.
func (c *closure) repositories() sandbox.Repositories {
	s := c.find(repositoriesTime)
	all := s.result()
	c.naming.Lock()
	defer c.naming.Unlock()
	if s.err == nil && !s.partial && (c.known == nil || c.known.repositories != nil) {
		c.known = &census{slices.Clone(all), s.links, s.closedLinks}
	}
	return atMost(all, s.partial)
}

// atMost is what is told of repositories, which are all unless the looking was partial.
func atMost(all []sandbox.Repository, partial bool) sandbox.Repositories {
	if len(all) > maxRepositories {
		return sandbox.Repositories{Found: all[:maxRepositories], Partial: true}
	}
	return sandbox.Repositories{Found: all, Partial: partial}
}

// census is what a search has found: repositories, and links at protected and at closed
// names.
type census struct {
	repositories       []sandbox.Repository
	links, closedLinks []string
}

// takeKnown are all repositories and links: those that repositories has found before
// anything ran inside, the first time, and those that there are now later. With an error
// there may be more. naming is held.
func (c *closure) takeKnown() (census, error) {
	known := c.known
	c.known = &census{}
	if known != nil && len(known.repositories) > 0 {
		return *known, nil
	}
	s := c.find(protectTime)
	all := s.result()
	if s.err == nil && s.partial {
		s.err = fmt.Errorf("there is more below %s than can be looked through for git repositories (%v, %d repositories)", s.project, protectTime, maxProtecting)
	}
	return census{all, s.links, s.closedLinks}, s.err
}

// isProtected reports whether a link at a path stands for something protected, or is on the
// way to it.
func (c *closure) isProtected(link string) bool {
	for _, g := range c.guarded {
		rel, err := filepath.Rel(g.tree, link)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		p := g.now.Load().protection
		if _, ok := p.Protects(filepath.ToSlash(rel)); ok || !p.MayLink(filepath.ToSlash(rel)) {
			return true
		}
	}
	return false
}

// knowRules takes in a rules file that nobody has asked for yet. What it closes would else be
// open for a moment to another sandbox of the project, when its directory is moved in this
// one to where that has just seen that there are no rules: a directory that is known to have
// some is not moved.
func (c *closure) knowRules(path string) { c.ignored(path, false) }

// isClosedLink reports whether rules close a link itself, and not only what is in a
// directory. Those among packages lead to each other, and to the project.
func (c *closure) isClosedLink(link string) bool {
	for i, g := range c.guarded {
		rel, err := filepath.Rel(g.tree, link)
		if err != nil || !filepath.IsLocal(rel) || policy.IsDependency(filepath.ToSlash(rel)) {
			continue
		}
		if d := c.sets[i].Explain(link, false); d.Ignored && d.Path == filepath.ToSlash(rel) {
			return true
		}
	}
	return false
}

// find looks through the project, for so long, for what search finds.
func (c *closure) find(atMost time.Duration) *search {
	s := &search{
		project: c.project(), roots: c.roots(), closed: func(dir string) bool { return c.ignored(dir, true) },
		rules: c.knowRules, protected: c.isProtected, closedLink: c.isClosedLink, agent: c.agent, until: time.Now().Add(atMost), found: map[sandbox.Repository]bool{},
	}
	for _, root := range s.roots {
		s.below(root, root)
	}
	return s
}

// search looks by the names of directory entries for repositories, for rules, and for links
// at protected and at closed names. Of files it reads those that say where a git directory is.
type search struct {
	project string
	roots   []string // where it looks, the project or a directory above it among them
	closed  func(dir string) bool
	// rules is told of each rules file; nil for nobody.
	rules func(path string)
	// protected and closedLink are whether a link is to be found, too; nil for none.
	protected, closedLink func(link string) bool
	agent                 int // the user that commands run as
	until                 time.Time
	found                 map[sandbox.Repository]bool
	// links are at protected names, closedLinks at closed ones.
	links, closedLinks []string
	partial            bool
	err                error // what could not be looked at, the first
}

// fail notes what could not be looked at, unless it is elsewhere, closed or somebody
// else's: nothing inside gets at what is in it then.
func (s *search) fail(path string, err error) {
	if s.err != nil || err == nil || isAbsent(err) || s.closed(path) || s.isForeign(path) {
		return
	}
	if e, ok := errors.AsType[*fs.PathError](err); !ok || s.has(e.Path) {
		s.err = errUnread(path, err)
	}
}

// isForeign reports whether a directory cannot be entered, and not be opened by its mode.
func (s *search) isForeign(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && int(st.Uid) != s.agent && unix.Access(path, unix.X_OK) != nil
}

// below looks through a directory, whose files are, or would be, at tree.
func (s *search) below(dir, tree string) {
	at := func(path string) string { return tree + strings.TrimPrefix(filepath.Dir(path), dir) }
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == ignore.FileName && s.rules != nil {
			s.rules(path)
		}
		switch {
		case err != nil:
			s.fail(path, err)
		case path == dir:
		case d.IsDir() && (len(s.found) > maxProtecting || time.Now().After(s.until)):
			s.partial = true
			return fs.SkipAll
		case d.Name() == ".git":
			s.entry(path, at(path))
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type()&fs.ModeSymlink != 0 && s.protected != nil:
			s.link(path)
		case d.Name() == "HEAD" && s.isBare(filepath.Dir(path)):
			s.gitDir(filepath.Dir(path), at(path))
			return fs.SkipDir // of what it is in
		}
		return nil
	})
}

// link takes a symbolic link.
func (s *search) link(path string) {
	if s.protected(path) {
		s.links = append(s.links, path)
	}
	if s.closedLink(path) {
		s.closedLinks = append(s.closedLinks, path)
	}
}

// entry takes a ".git" of a work tree: a directory, or what leads to one. That of the
// project, or another root, is one whatever it is.
func (s *search) entry(path, tree string) {
	dir, err := gitDirOf(path)
	s.fail(path, err)
	switch {
	case err == nil && s.has(dir) && (s.exists(dir, "HEAD") || s.exists(dir, "objects")):
		s.gitDir(dir, tree)
	case tree == s.project, slices.Contains(s.roots, tree):
		s.add(path, tree)
	}
}

// gitDirOf is the git directory that a ".git" is, or leads to.
func gitDirOf(path string) (string, error) {
	dir, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	text, err := readFile(dir)
	if errors.Is(err, errNoFile) {
		return dir, nil
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	if err != nil || !ok {
		return "", cmp.Or(err, errNoFile)
	}
	return filepath.EvalSymlinks(from(filepath.Dir(path), strings.TrimSpace(to)))
}

// isBare reports whether git takes a directory itself for a repository.
func (s *search) isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			s.fail(dir, err)
			return false
		}
	}
	return true
}

// readFile reads a regular file that may be somebody else's.
func readFile(path string) ([]byte, error) {
	return readPlain(func(flags int) (*os.File, error) { return os.OpenFile(path, flags, 0) })
}

// gitDir takes a git directory. Those of submodules are below it, also of such that
// have no work tree now; they are called as it was.
func (s *search) gitDir(dir, tree string) {
	if s.add(dir, tree) {
		s.below(filepath.Join(dir, "modules"), tree)
	}
}

// add adds a repository and reports whether it is a new one. What is in a closed
// directory is closed anyway.
func (s *search) add(dir, tree string) bool {
	r := sandbox.Repository{Dir: nameIn(s.project, dir), Tree: nameIn(s.project, tree)}
	if s.found[r] || s.closed(dir) {
		return false
	}
	s.found[r] = true
	return true
}

func (s *search) has(path string) bool {
	return slices.ContainsFunc(s.roots, func(root string) bool { return isIn(path, root) })
}

func (s *search) exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	s.fail(dir, err)
	return err == nil
}

// result is what was found, in order: bare repositories, which can be made inside, come
// last.
func (s *search) result() []sandbox.Repository {
	bare := func(r sandbox.Repository) int {
		if r.Dir == r.Tree {
			return 1
		}
		return 0
	}
	all := slices.SortedFunc(maps.Keys(s.found), func(a, b sandbox.Repository) int {
		return cmp.Or(bare(a)-bare(b), strings.Compare(a.Dir, b.Dir), strings.Compare(a.Tree, b.Tree))
	})
	dirs := map[string]bool{}
	for _, r := range all {
		dirs[r.Dir] = true
	}
	for i := range all {
		all[i].Linked = s.linked(all[i].Dir, dirs)
	}
	return all
}

// linked reports whether a git directory is that of a linked work tree of one that was
// found.
func (s *search) linked(dir string, found map[string]bool) bool {
	at := placeIn(s.project, dir)
	text, err := readFile(filepath.Join(at, "commondir"))
	if err != nil {
		return false // protectNamed reads it, too
	}
	common, err := filepath.EvalSymlinks(from(at, strings.TrimSpace(string(text))))
	return err == nil && common != at && found[nameIn(s.project, common)]
}

package changes

import (
	"crypto/sha256"
	"io/fs"
	"path"
	"strings"
	"time"
)

// sum is the SHA-256 of a file's content, or of a link's target.
type sum = [sha256.Size]byte

// A stamp is equal as long as nobody changed a file. The change time is what makes
// it so: the kernel sets it, whatever a program sets the modification time to.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

type kind uint8

const (
	kindFile kind = iota + 1
	kindLink
	kindDir
	kindSpecial // a pipe, a socket, a device: never opened
)

// info is what the file system says of a name.
type info struct {
	stamp
	kind  kind
	mode  fs.FileMode // permissions and the three bits above them
	names uint64      // how many there are of this file
	uid   uint32
	gid   uint32
}

// entry is a name in a directory.
type entry struct {
	name string
	info
	hidden bool // by the ignore rules
	read   bool // sum is the content's
	racy   bool // it may have changed after it was read without its stamp showing it
	sum    sum
}

// listing is a directory as it was seen, its entries in the directory's order. It
// does not change once its manifest is complete: manifests share it.
type listing struct {
	entries []entry
}

// finder gives the entry of a name, nil when there is none. at is where it probably
// is: only where the order is another are the names put in a map.
func (l *listing) finder() func(name string, at int) *entry {
	if l == nil {
		return func(string, int) *entry { return nil }
	}
	var byName map[string]*entry
	return func(name string, at int) *entry {
		if at < len(l.entries) && l.entries[at].name == name {
			return &l.entries[at]
		}
		if byName == nil {
			byName = l.byName()
		}
		return byName[name]
	}
}

func (l *listing) byName() map[string]*entry {
	m := make(map[string]*entry, len(l.entries))
	for i := range l.entries {
		m[l.entries[i].name] = &l.entries[i]
	}
	return m
}

// manifest is a tree as it was seen at one time: directories by their path from
// the root, which is "".
type manifest struct {
	dirs map[string]*listing
	note map[string]string // directories that a bound left out, and why
	head string            // the commit of HEAD, when known
	at   time.Time
	cut  bool // there was no time for some of them
}

// covers says that a directory, or one above it, was left out.
func (m *manifest) covers(dir string) bool {
	for len(m.note) > 0 {
		if m.note[dir] != "" || dir == "" {
			return m.note[dir] != ""
		}
		dir = dir[:max(strings.LastIndexByte(dir, '/'), 0)]
	}
	return false
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// isHeavy says that a directory holds what tools can make again: dependencies and
// caches. Its files are compared by their stamps, and their content is not kept.
func isHeavy(name string) bool {
	switch name {
	case "node_modules", "bower_components", ".pnpm-store", ".venv", "venv", "__pycache__", ".tox", ".nox", ".gradle",
		".mypy_cache", ".pytest_cache", ".ruff_cache", ".terraform", ".next", ".nuxt", ".turbo", ".parcel-cache", ".cache", ".direnv":
		return true
	}
	return false
}

// heavyTop is the outermost heavy directory that a directory is or is in; "" when there is none.
func heavyTop(dir string) string {
	for end := 0; end < len(dir); {
		i := strings.IndexByte(dir[end:], '/')
		if i < 0 {
			i = len(dir) - end
		}
		if isHeavy(dir[end : end+i]) {
			return dir[:end+i]
		}
		end += i + 1
	}
	return ""
}

// isOutput says that a directory probably holds what a build made. Its files are
// read after the others.
func isOutput(name string) bool {
	switch name {
	case "target", "build", "dist", "out", "obj", "coverage", "vendor", "third_party":
		return true
	}
	return false
}

// looksInto says whether a name in a directory is part of the comparison. Of a
// repository only what git obeys is: it is what an agent could make git run.
func looksInto(dir, name string) bool {
	if path.Base(dir) == ".git" {
		return name == "config" || name == "config.worktree" || name == "hooks" || name == "info"
	}
	switch name {
	case ".hg", ".svn", ".jj", ".bzr", "CVS", "_darcs":
		return false
	}
	return true
}

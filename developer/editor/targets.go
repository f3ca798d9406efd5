package editor

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A target is where a patch goes: the same file twice, unless it renames.
type target struct {
	patch    patch
	old, new string // absolute
}

// creates says whether the patch may make the file that it changes: it is a new
// one, or all that it does is add lines at the top.
func (t target) creates() bool {
	p := t.patch
	if p.old == "" {
		return true
	}
	return p.new == p.old && len(p.hunks) == 1 && p.hunks[0].start == 0 && len(p.hunks[0].old()) == 0
}

// A base is what the names in a diff are relative to.
type base struct {
	dir  string
	file string // the only file that the diff can mean; empty when the call named a directory
}

// baseOf takes the path of a call for a directory, or for a file in one. The file
// need not be there when the diff makes it.
func baseOf(f Files, name string, patches []patch) (base, error) {
	path := f.Abs(name)
	info, err := f.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return base{dir: path}, nil
	case err == nil:
		b := base{dir: filepath.Dir(path)}
		if len(patches) == 1 {
			b.file = path
		}
		return b, nil
	case refused(err):
		return base{}, err
	case len(patches) == 1 && patches[0].old == "":
		return base{dir: filepath.Dir(path), file: path}, nil
	}
	return base{}, literally("The path '%s' does not exist or is not accessible.", path)
}

// target finds the file or the two files of a patch and checks that they may be changed.
func (b base) target(f Files, p patch) (t target, err error) {
	t.patch = p
	if p.old != "" {
		if t.old, err = b.find(f, p.old); err != nil {
			return t, err
		}
	}
	if p.new != "" && p.new != p.old {
		if t.new, err = b.find(f, p.new); err != nil {
			return t, err
		}
	}
	switch {
	case t.old == "":
		t.old = t.new
	case t.new == "":
		t.new = t.old
	}
	return t, nil
}

// find is the file that a name in a diff means. A name may repeat the end of the
// base's path, be absolute, or have a prefix that the parser could not know for one.
func (b base) find(f Files, name string) (string, error) {
	var first string
	for _, n := range spellings(name) {
		for _, dir := range []string{withoutOverlap(b.dir, n), b.dir} {
			path, err := b.join(dir, n)
			if err != nil {
				return "", err
			}
			if first == "" {
				first = path
			}
			if _, err := os.Lstat(path); err == nil {
				return path, b.allowed(f, path)
			}
		}
	}
	if b.file != "" && filepath.Base(first) == filepath.Base(b.file) {
		first = b.file
	}
	return first, b.allowed(f, first)
}

// spellings are the names that a name in a diff may stand for.
func spellings(name string) []string {
	name = filepath.FromSlash(strings.TrimSpace(name))
	if len(name) > 2 && (name[0] == 'a' || name[0] == 'b') && name[1] == filepath.Separator {
		return []string{name, name[2:]}
	}
	return []string{name}
}

// join is the path of a name below a directory; it may not leave the base.
func (b base) join(dir, name string) (string, error) {
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if part == ".." {
			return "", invalid("Path traversal detected: paths cannot contain '..'")
		}
	}
	if filepath.IsAbs(name) {
		if rel, err := filepath.Rel(b.dir, name); err != nil || !filepath.IsLocal(rel) {
			return "", invalid("Path '%s' is outside the base directory", name)
		}
		return filepath.Clean(name), nil
	}
	if !filepath.IsLocal(name) {
		return "", invalid("Path '%s' is outside the base directory", name)
	}
	return filepath.Join(dir, name), nil
}

// withoutOverlap takes from the end of dir what name begins with: /repo/src and
// src/a.go are /repo and src/a.go.
func withoutOverlap(dir, name string) string {
	sep := string(filepath.Separator)
	parts := strings.Split(filepath.Clean(name), sep)
	for n := len(parts) - 1; n > 0; n-- {
		if rest, ok := strings.CutSuffix(dir, sep+strings.Join(parts[:n], sep)); ok {
			return rest + sep
		}
	}
	return dir
}

// allowed says whether a diff may change a path: it is below the base also when
// links are followed, no link itself, and no rule forbids it.
func (b base) allowed(f Files, path string) error {
	if err := f.CheckChange(path); err != nil {
		return err
	}
	rel, err := filepath.Rel(resolve(b.dir), resolve(filepath.Dir(path)))
	if err != nil || !filepath.IsLocal(rel) {
		return invalid("Path '%s' would be outside the base directory", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return invalid("Cannot modify symlink '%s'. Please operate on the actual file.", path)
	}
	return nil
}

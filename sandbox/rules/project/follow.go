package project

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks bounds the links on the way to a file, as the kernel does.
const maxLinks = 40

// Reached is what a path of a directory leads to.
type Reached struct {
	// Path is it without links: relative to the directory, or absolute when Outside.
	Path    string
	Outside bool
	// Linked says that there was a link on the way.
	Linked bool
	// Info is about what is there; nil when nothing is, or it is outside.
	Info fs.FileInfo
}

// Follow follows the links of a path below a directory as far as they lead through that.
// The directory may be somebody else's: nothing outside is looked at, and no file opened.
func Follow(dir, rel string) (Reached, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Reached{}, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return Reached{}, err
	}
	defer func() { _ = root.Close() }()
	w := walk{root: root, real: real, spelled: filepath.Clean(dir), names: namesIn(rel)}
	return w.end()
}

// walk is on the way to a file.
type walk struct {
	root          *os.Root
	real, spelled string
	at            []string // where it is
	names         []string // that are to come
	reached       Reached
}

func (w *walk) end() (Reached, error) {
	for links := 0; len(w.names) > 0; {
		name := w.names[0]
		w.names = w.names[1:]
		if name == ".." {
			if len(w.at) > 0 {
				w.at, w.reached.Info = w.at[:len(w.at)-1], nil
			} else if !w.jump(filepath.Dir(w.real)) {
				return w.reached, nil
			}
			continue
		}
		path := filepath.Join(append(w.at[:len(w.at):len(w.at)], name)...)
		info, err := w.root.Lstat(path)
		if err != nil { // nothing is there, and nothing below it
			w.reached.Path, w.reached.Info = filepath.Join(append([]string{path}, w.names...)...), nil
			return w.reached, nil
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			w.at, w.reached.Info = append(w.at, name), info
			continue
		}
		target, err := w.root.Readlink(path)
		if links++; err != nil || links > maxLinks {
			return w.reached, fmt.Errorf("%s cannot be followed: it leads through too many links, or one that cannot be read", path)
		}
		w.reached.Linked, w.reached.Info = true, nil
		if !filepath.IsAbs(target) {
			w.names = append(namesIn(target), w.names...)
		} else if !w.jump(target) {
			return w.reached, nil
		}
	}
	w.reached.Path = filepath.Join(append([]string{"."}, w.at...)...)
	return w.reached, nil
}

// jump goes on from an absolute path. It reports false when that leads outside, which is
// the end.
func (w *walk) jump(to string) bool {
	to = filepath.Join(append([]string{to}, w.names...)...)
	for _, dir := range []string{w.real, w.spelled} {
		if rel, err := filepath.Rel(dir, to); err == nil && filepath.IsLocal(rel) {
			w.at, w.names = nil, namesIn(rel)
			return true
		}
	}
	w.reached.Path, w.reached.Outside = to, true
	return false
}

// namesIn are the names that a path is made of.
func namesIn(path string) (names []string) {
	for name := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// Resolve returns the absolute path without links of something that a sandbox is to show. It fails
// when a link on the way is in one of the directories that the sandbox can write: who writes
// there would choose what of the machine is shown.
func Resolve(path string, writable []string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	at := filepath.VolumeName(path) + string(filepath.Separator)
	names := namesIn(path[len(filepath.VolumeName(path)):])
	for links := 0; len(names) > 0; {
		next := filepath.Join(at, names[0])
		names = names[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		for _, dir := range writable {
			if real, err := filepath.EvalSymlinks(dir); dir != "" && err == nil && Below(at, real) {
				return "", fmt.Errorf("%s is a link in %s, which the sandbox can write, so that what runs there would choose what it leads to; name what is meant itself", next, dir)
			}
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return "", fmt.Errorf("%s leads through too many links, or one that cannot be read", path)
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
		}
		names = append(namesIn(target[len(filepath.VolumeName(target)):]), names...)
	}
	return at, nil
}

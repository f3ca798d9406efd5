package ignore

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

// maxSize bounds a rules file. The largest ones in the wild have some kilobytes.
const maxSize = 1 << 20

// maxLine bounds a rule; Linux knows no longer paths.
const maxLine = 4096

// readIn reads a rules file below a root. It neither leaves the root by a link
// nor waits for the other end of a pipe. Behind a directory that is a link there
// are no rules: the files there have another name, and other rules.
//
// Between the looks anything may be renamed. At worst that reads rules of the
// same root from another place, which whoever renames could have written.
func readIn(root, rel string) (string, error) {
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(filepath.Join(root, dir)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "", errBehindLink
		}
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if err := regular(r.Stat(rel)); err != nil {
		return "", err
	}
	f, err := r.OpenFile(rel, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return "", err
	}
	return readAll(f)
}

// leadsUp reports whether a rules file that is a link leads to that of a directory above,
// over no others. It is below a root that no link leads out of.
func leadsUp(file string) bool {
	const most = 40 // links in a path
	for range most {
		target, err := os.Readlink(file)
		if err != nil {
			return true
		}
		up := strings.Split(filepath.ToSlash(target), "/")
		name := up[len(up)-1]
		if up = up[:len(up)-1]; name != FileName || len(up) == 0 || slices.ContainsFunc(up, func(s string) bool { return s != ".." }) {
			return false
		}
		file = filepath.Join(filepath.Dir(file), target)
	}
	return false
}

var errBehindLink = errors.New("it is behind a link")

// readFile reads the person's own rules file, which may be a link to anywhere.
func readFile(name string) (string, error) {
	if err := regular(os.Stat(name)); err != nil {
		return "", err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return "", err
	}
	return readAll(f)
}

func readAll(f *os.File) (string, error) {
	defer f.Close()
	if err := regular(f.Stat()); err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxSize:
		return "", fmt.Errorf("it is larger than %d bytes", maxSize)
	case strings.Contains(string(data), end):
		return "", errors.New("it is not text")
	}
	for line := range strings.Lines(string(data)) {
		if len(line) > maxLine && !strings.HasPrefix(line, "#") {
			return "", fmt.Errorf("it has a line of %d bytes, and no path is that long", len(line))
		}
	}
	return string(data), nil
}

func regular(info fs.FileInfo, err error) error {
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() > maxSize:
		return fmt.Errorf("it is larger than %d bytes", maxSize)
	}
	return nil
}

// A signature tells whether a rules file is still the one that was read.
type signature struct {
	there   bool
	unseen  bool // it could not be looked at
	mode    fs.FileMode
	size    int64
	changed time.Time
	id      fileID
}

// sign looks at a file without opening it. What cannot be looked at, as in a directory that
// cannot be searched or whose path is too long, counts as there and cannot be read.
func sign(name string, follow bool) signature {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	info, err := stat(name)
	if err != nil {
		unseen := !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
		return signature{there: unseen, unseen: unseen}
	}
	s := signature{there: true, mode: info.Mode(), size: info.Size(), changed: info.ModTime()}
	s.id = identify(info)
	return s
}

// fresh says that the file, when it was read, could still change without that
// being seen in its signature, because time goes in steps: of some milliseconds
// where it is kept in nanoseconds, of up to two seconds where it is not. A link
// always could.
func (s signature) fresh(when time.Time) bool {
	changed := s.id.latest(s.changed)
	step := 50 * time.Millisecond
	if changed.Nanosecond()%int(time.Millisecond) == 0 {
		step = 2 * time.Second
	}
	return s.there && (s.mode&fs.ModeSymlink != 0 || when.Sub(changed) < step)
}

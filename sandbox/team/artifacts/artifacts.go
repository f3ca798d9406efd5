// Package artifacts keeps what the agents of a run leave for each other: files below a
// directory of gander's own, which no sandbox sees. Who reads and writes them by name gets
// to nothing else, whatever the name is.
package artifacts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The bounds of a folder.
const (
	maxFile  = 1 << 20
	maxAll   = 64 << 20
	maxFiles = 1000
	maxName  = 200
	maxDepth = 6
)

// sessionFile holds the id of the session that a folder belongs to.
const sessionFile = ".session"

// A Folder holds files. Its methods may be called concurrently.
type Folder struct {
	dir     string
	session string

	// mu is held while a file is written.
	mu sync.Mutex
}

// At returns the folder of a directory, which is made with the first file. It belongs to a
// session, or, where that is empty, to nobody.
func At(dir, session string) *Folder { return &Folder{dir: dir, session: session} }

// Dir returns its directory.
func (f *Folder) Dir() string { return f.dir }

// CheckName says why a name cannot be one of a file; nil when it can.
func CheckName(name string) error {
	parts := strings.Split(name, "/")
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name has %d bytes, more than %d", len(name), maxName)
	case len(parts) > maxDepth:
		return fmt.Errorf("the name has more than %d parts", maxDepth)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`\:*?"<>|`, r) }):
		return fmt.Errorf("%q has characters that a name of a file must not have here; parts are separated by /", name)
	}
	for _, p := range parts {
		switch {
		case p == "" || p == "." || p == "..":
			return fmt.Errorf("%q leaves the folder, or is not plain; name a file below it, like notes/plan.md", name)
		case strings.HasPrefix(p, ".") || strings.HasSuffix(p, ".") || strings.HasSuffix(p, " "):
			return fmt.Errorf("%q: no part of a name begins with a dot, or ends with one or with a space", name)
		case isDevice(p):
			return fmt.Errorf("%q is the name of a device on Windows", name)
		}
	}
	return nil
}

// isDevice reports whether Windows takes a name for a device's.
func isDevice(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	if slices.Contains([]string{"con", "prn", "aux", "nul"}, stem) {
		return true
	}
	return len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && stem[3] >= '0' && stem[3] <= '9'
}

// Write makes a file, or replaces one.
func (f *Folder) Write(name string, content []byte) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if len(content) > maxFile {
		return fmt.Errorf("%s: %d bytes are more than the %d that a file may have", name, len(content), maxFile)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	root, err := f.make()
	if err != nil {
		return cause(err)
	}
	defer func() { _ = root.Close() }()
	if err := room(root, len(content)); err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return fmt.Errorf("writing %s: %w", name, cause(err))
	}
	if err := regular(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := root.WriteFile(name, content, 0o600); err != nil {
		_ = root.Remove(name) // half of it helps nobody
		return fmt.Errorf("writing %s: %w", name, cause(err))
	}
	return nil
}

// make makes the directory.
func (f *Folder) make() (*os.Root, error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil || f.session == "" {
		return root, err
	}
	if _, err := root.Lstat(sessionFile); err == nil {
		return root, nil
	}
	if err := root.WriteFile(sessionFile, []byte(f.session), 0o600); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// room fails where a folder would have more than its bounds.
func room(root *os.Root, more int) error {
	var bytes int64
	files := 0
	err := fs.WalkDir(root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			files++
			bytes += info.Size()
		}
		return err
	})
	if err == nil && (bytes+int64(more) > maxAll || files >= maxFiles) {
		return fmt.Errorf("there is no room: a run has at most %d files and %d MiB", maxFiles, maxAll>>20)
	}
	return err
}

// regular fails for what is not a plain file.
func regular(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a plain file", name)
	}
	return err
}

// Read returns the content of a file.
func (f *Folder) Read(name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(f.dir)
	if err == nil {
		defer func() { _ = root.Close() }()
		err = regular(root, name)
	}
	var file *os.File
	if err == nil {
		file, err = root.Open(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, cause(err))
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, cause(err))
	}
	return content, nil
}

// Path returns where a file is on this machine.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// cause returns an error without the path, which is nothing for a model.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// Forget removes the folders below a directory that belong to a session.
func Forget(dir, session string) error {
	return remove(dir, func(at string, _ fs.DirEntry) bool {
		id, err := os.ReadFile(filepath.Join(at, sessionFile))
		return err == nil && string(id) == session
	})
}

// Tidy removes the folders of sessions that nothing was written to for longer than an age;
// none where that is 0.
func Tidy(dir string, age time.Duration) error {
	if age <= 0 {
		return nil
	}
	return remove(dir, func(at string, _ fs.DirEntry) bool {
		info, err := os.Lstat(filepath.Join(at, sessionFile))
		return err == nil && time.Since(info.ModTime()) > age
	})
}

func remove(dir string, which func(at string, e fs.DirEntry) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if at := filepath.Join(dir, e.Name()); e.IsDir() && which(at, e) {
			err = errors.Join(err, os.RemoveAll(at))
		}
	}
	return err
}

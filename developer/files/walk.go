package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// ReadDir lists a directory, sorted by name, without what the rules hide.
func (s *Space) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.list(f, s.Abs(name), f.Name())
}

// list reads an open directory; the rules hold for its name and its path without
// links.
func (s *Space) list(f *os.File, abs, real string) ([]fs.DirEntry, error) {
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	for _, dir := range slices.Compact([]string{abs, real}) {
		ignored := lister(s.o.Rules, dir)
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return ignored(e.Name(), e.IsDir()) })
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Walk calls fn for a directory and everything below it, in the order of
// [filepath.WalkDir], with absolute paths; or for the one file that the name is.
// It leaves out version control's own directories and what the rules hide, does
// not follow links, and passes over directories that cannot be read. Directories
// are read ahead by several goroutines; fn is called by the caller's.
// [fs.SkipDir] and [fs.SkipAll] mean what they mean there.
func (s *Space) Walk(ctx context.Context, name string, fn func(path string, d fs.DirEntry) error) error {
	f, err := s.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	abs := s.Abs(name)
	w := walker{s: s, fn: fn, ahead: make(chan *listing, 256), stop: make(chan struct{})}
	err = fn(abs, fs.FileInfoToDirEntry(info))
	if err != nil || !info.IsDir() {
		return skipped(err)
	}
	defer w.readAhead()()
	return skipped(w.directory(ctx, abs, &listing{abs: abs, real: f.Name()}))
}

// skipped is the error of a walk that ended early on purpose.
func skipped(err error) error {
	if errors.Is(err, fs.SkipAll) || errors.Is(err, fs.SkipDir) {
		return nil
	}
	return err
}

// A walker is one Walk.
type walker struct {
	s     *Space
	fn    func(path string, d fs.DirEntry) error
	ahead chan *listing // to be read before they are needed
	stop  chan struct{}
}

// A listing is a directory that is read once, by whoever comes first.
type listing struct {
	abs, real string
	once      sync.Once
	entries   []fs.DirEntry
	below     map[string]*listing // its directories
}

// readAhead starts readers and returns what ends them.
func (w *walker) readAhead() func() {
	var readers sync.WaitGroup
	for range max(1, runtime.GOMAXPROCS(0)-1) {
		readers.Go(func() {
			for {
				select {
				case <-w.stop:
					return
				case l := <-w.ahead:
					w.read(l)
				}
			}
		})
	}
	return func() {
		close(w.stop)
		readers.Wait()
	}
}

// read lists a directory and offers those in it to the readers.
func (w *walker) read(l *listing) {
	l.once.Do(func() {
		f, err := os.OpenFile(l.real, os.O_RDONLY|noWait, 0)
		if err != nil {
			return // unreadable, or gone, or a link now
		}
		defer f.Close()
		if l.entries, err = w.s.list(f, l.abs, l.real); err != nil {
			l.entries = nil
			return
		}
		l.below = map[string]*listing{}
		for _, e := range l.entries {
			if !e.IsDir() || isVCS(e.Name()) {
				continue
			}
			sep := string(filepath.Separator)
			child := &listing{abs: strings.TrimSuffix(l.abs, sep) + sep + e.Name(), real: strings.TrimSuffix(l.real, sep) + sep + e.Name()}
			l.below[e.Name()] = child
			select {
			case w.ahead <- child:
			default: // they have enough to do; it is read when it is needed
			}
		}
	})
}

// directory visits what is in a directory.
func (w *walker) directory(ctx context.Context, abs string, l *listing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.read(l)
	sep := string(filepath.Separator)
	for _, e := range l.entries {
		child := l.below[e.Name()]
		if e.IsDir() && child == nil {
			continue // version control's
		}
		path := strings.TrimSuffix(abs, sep) + sep + e.Name()
		err := w.fn(path, e)
		if err == nil && child != nil {
			err = w.directory(ctx, path, child)
			delete(l.below, e.Name()) // its listing is of no more use
		}
		if errors.Is(err, fs.SkipDir) {
			if e.IsDir() {
				continue
			}
			return nil // the rest of this directory
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isVCS(name string) bool {
	switch name {
	case ".git", ".hg", ".svn", ".jj", ".bzr", "CVS", "_darcs":
		return true
	}
	return false
}

package developer

import (
	"cmp"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"gander.dev/gander/developer/files"
	"gander.dev/gander/developer/guard"
	"gander.dev/gander/sandbox/rules/ignore"
)

// SpacesOptions describe what the tools may see of the file system.
type SpacesOptions struct {
	// WorkingDir is the server's own directory, absolute: that of calls that name
	// none.
	WorkingDir string
	// HomeDir is the person's home, AppDataDir on Windows what %APPDATA% says.
	HomeDir, AppDataDir string
	// GlobalIgnore is the path of the person's own .gooseignore, which holds in
	// every directory; empty means none.
	GlobalIgnore string
	// Roots are further directories in which files may be changed, besides the work tree of
	// the call's working directory and TempDir; the root of the file system permits all.
	Roots []string
	// TempDir is the directory for temporary files; empty means none.
	TempDir string
	// Environment is that of commands, as NAME=VALUE, so that the guard sees what
	// a variable in a command stands for.
	Environment []string
	// Buffers are the unsaved files of an editor; nil reads and writes the disk.
	Buffers files.Buffers
	// Logger hears of rules that cannot be read; nil means nobody does.
	Logger *slog.Logger
}

// Spaces hand every call the file system of its working directory. They keep the
// compiled rules of each directory and follow changes of the rules. They may be
// used concurrently.
type Spaces struct {
	o       SpacesOptions
	watcher *ignore.Watcher // nil where the system has none left

	mu    sync.Mutex // guards what is below
	known map[string]*workplace
	order []string // of their last use, the oldest first
}

// workplace is one working directory.
type workplace struct {
	space *files.Space
	rules *ignore.Set
}

// maxPlaces bounds the directories that are remembered. Sessions come and go, and
// each has one or two.
const maxPlaces = 64

// NewSpaces makes the spaces of one server. Close them at its end.
func NewSpaces(o SpacesOptions) *Spaces {
	return &Spaces{o: o, known: map[string]*workplace{}, watcher: ignore.NewWatcher(o.Logger)}
}

// For is the file system as a call with this working directory may see it; an
// empty one means the server's own. It fails when the directory is no absolute
// path, or when its ignore rules cannot be read and never could.
func (s *Spaces) For(workingDir string) (*files.Space, error) {
	p, err := s.workplace(workingDir)
	if err != nil {
		return nil, err
	}
	return p.space, nil
}

// Guard looks at a command line before it runs and refuses one that names a file
// which the rules hide: an [*Error] with classic goose's text. It reads what the
// command says, not what it does; see the package guard.
func (s *Spaces) Guard(workingDir, command string) error {
	p, err := s.workplace(workingDir)
	if err != nil {
		return err
	}
	err = guard.Check(command, guard.Options{
		WorkingDir: p.space.WorkingDir(), HomeDir: s.o.HomeDir, Environment: s.o.Environment, Files: p.space,
	})
	if err != nil {
		return &Error{Code: InternalError, Message: err.Error()}
	}
	return nil
}

// Close stops following the rules. No call may be running.
func (s *Spaces) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.known {
		errs = append(errs, p.rules.Close())
	}
	clear(s.known)
	if s.watcher != nil {
		errs = append(errs, s.watcher.Close())
		s.watcher = nil
	}
	return errors.Join(errs...)
}

func (s *Spaces) workplace(workingDir string) (*workplace, error) {
	dir := filepath.Clean(cmp.Or(workingDir, s.o.WorkingDir))
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.known[dir]
	if p == nil {
		var err error
		if p, err = s.make(dir); err != nil {
			return nil, &Error{Code: InvalidParams, Message: err.Error()}
		}
	}
	s.remember(dir, p)
	if err := p.rules.Closed(); err != nil {
		return nil, &Error{Code: InternalError, Message: err.Error()}
	}
	return p, nil
}

func (s *Spaces) make(dir string) (*workplace, error) {
	rules, err := ignore.NewSet(ignore.SetOptions{
		Root: dir, Global: s.o.GlobalIgnore, Watcher: s.watcher, Logger: s.o.Logger,
	})
	if err != nil {
		return nil, err
	}
	space, err := files.New(files.Options{
		WorkingDir: dir, HomeDir: s.o.HomeDir, AppDataDir: s.o.AppDataDir,
		Roots: s.rootsOf(dir), Rules: rules, Buffers: s.o.Buffers,
	})
	if err != nil {
		return nil, errors.Join(err, rules.Close())
	}
	return &workplace{space: space, rules: rules}, nil
}

// remember makes dir the last used and forgets the oldest beyond the bound. A call
// that still has its space goes on with it. s.mu is held.
func (s *Spaces) remember(dir string, p *workplace) {
	for i, d := range s.order {
		if d == dir {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	s.known[dir], s.order = p, append(s.order, dir)
	if len(s.order) > maxPlaces {
		_ = s.known[s.order[0]].rules.Close() // it only stops watching
		delete(s.known, s.order[0])
		s.order = s.order[1:]
	}
}

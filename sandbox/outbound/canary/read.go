package canary

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/sandbox/rules/ignore"
)

// Limits of reading a project's closed files. They are for one look.
const (
	maxFile    = 256 << 10 // bytes; what is larger holds no secrets by hand
	maxFiles   = 2000      // that are read
	maxEntries = 500_000   // that are looked at
	maxDepth   = 100       // directories, each of them open
	maxTime    = 3 * time.Second
)

// Report is what one look at a project was.
type Report struct {
	// Files were read. Partial says that there is more than is looked at in one go.
	Files   int
	Partial bool
	Took    time.Duration
}

// errEnough ends a look.
var errEnough = errors.New("enough")

// Read learns the tokens of a project's closed files, those that its rules and the
// person's own file hide. It reads regular files below the project only, follows no
// link, waits for no pipe, and gives up after a few seconds: whoever works in the
// project may change it meanwhile, and gains nothing by it. What is found is said to
// be below the path as.
func (s *Set) Read(ctx context.Context, project, as, own string) (Report, error) {
	began := time.Now()
	ctx, done := context.WithTimeout(ctx, maxTime)
	defer done()
	rules, err := ignore.NewSet(ignore.SetOptions{Root: project, Shared: true, Global: own, MaxAge: maxTime})
	if err != nil {
		return Report{}, err
	}
	root, err := os.OpenRoot(project)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = root.Close() }()
	r := &reader{set: s, root: root, rules: rules, project: project, as: as, ctx: ctx}
	err = r.dir(".", false)
	r.report.Took = time.Since(began)
	if errors.Is(err, errEnough) || err == nil && r.deeper {
		r.report.Partial, err = true, nil
	}
	return r.report, err
}

type reader struct {
	set     *Set
	root    *os.Root
	rules   *ignore.Set
	project string
	as      string
	ctx     context.Context
	entries int
	deeper  bool // there is more below what is looked at
	report  Report
}

// dirSize is how many entries of a directory are read at a time.
const dirSize = 512

// dir looks at a directory; all is closed in one that is itself.
func (r *reader) dir(name string, closed bool) error {
	if strings.Count(name, "/") >= maxDepth {
		r.deeper = true
		return nil
	}
	d, err := r.root.OpenFile(name, os.O_RDONLY|nonblock, 0) // what was a directory may be a pipe now
	if err != nil {
		return nil // gone, or not for us
	}
	defer func() { _ = d.Close() }()
	for {
		entries, err := d.ReadDir(dirSize)
		for _, e := range entries {
			r.entries++
			if r.ctx.Err() != nil || r.entries > maxEntries || r.report.Files >= maxFiles {
				return errEnough
			}
			if err := r.entry(path.Join(name, e.Name()), e, closed); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (r *reader) entry(name string, e fs.DirEntry, closed bool) error {
	switch {
	case e.IsDir() && e.Name() == ".git":
		return nil
	case e.IsDir():
		return r.dir(name, closed || r.rules.Ignored(filepath.Join(r.project, name), true))
	case e.Type().IsRegular() && (closed || r.rules.Ignored(filepath.Join(r.project, name), false)):
		r.file(name)
	}
	return nil
}

// file learns one file. What is not what it was a moment ago is left alone.
func (r *reader) file(name string) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return
	}
	r.report.Files++
	r.set.Learn(text, path.Join(filepath.ToSlash(r.as), name))
}

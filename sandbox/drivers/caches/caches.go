// Package caches keeps what package managers and compilers fetched or made in a sandbox for
// the next one of the same project. Use [Open] for a sandbox, and [Tidy] now and then.
//
// Sandboxes write the caches. The host makes their directories, adds up sizes and removes
// them; it opens no file in them and follows no link.
package caches

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/natefinch/atomic"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/rules/project"
)

// Inside holds the caches in a sandbox with a root of its own.
const Inside = "/var/cache/gander"

//go:embed table.txt
var tableText string

// row is a line of the table.
type row struct{ at, name string }

var table = func() (rows []row) {
	for line := range strings.Lines(tableText) {
		if at, name, ok := strings.Cut(line, "|"); ok && !strings.HasPrefix(line, "#") {
			rows = append(rows, row{strings.TrimSpace(at), strings.TrimSpace(name)})
		}
	}
	return rows
}()

// pnpmSettings is the file of pnpm's settings, pnpmStore the directory of its store. Without
// a setting pnpm makes one at the top of the project, which is another mount than the home.
const pnpmSettings, pnpmStore = ".config/pnpm/rc", ".local/share/pnpm/store"

// withLinks adds to a home's links those to caches at a path inside; with an empty path the home
// leads to none.
func withLinks(links map[string]string, at string) map[string]string {
	all := maps.Clone(links)
	if all == nil {
		all = map[string]string{}
	}
	for _, r := range table {
		all[r.at] = ""
		if at != "" {
			all[r.at] = at + "/" + r.name
		}
	}
	return all
}

// Options say whose caches are opened.
type Options struct {
	// StateDir is gander's home.
	StateDir string
	// Bound limits the bytes of one project's; what has more begins anew. 0 keeps none.
	Bound  int64
	Driver string
	// Image names the image that the programs inside are of; empty for this machine's.
	Image   string
	Project project.Project
}

// key says whose the caches are. Two projects that differ in any of it share nothing.
type key struct {
	Project string `json:"project"`
	File    string `json:"file"` // identifies the directory: another one at its path is another project
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Driver  string `json:"driver"`
	Image   string `json:"image,omitempty"`
}

// record is kept beside a project's caches. Its own time is when they were used last.
type record struct {
	key
	Bytes int64         `json:"bytes"`
	Took  time.Duration `json:"took"` // to measure
	At    time.Time     `json:"at"`   // when it was measured
}

// Files in the directory of a project's caches, and of all.
const (
	recordFile = "caches.json"
	lockFile   = ".lock"
	filesDir   = "files"
	trashDir   = ".trash"
)

// Caches are a project's, in use.
type Caches struct {
	dir string
	use *flock.Flock
}

// Open opens the caches of a project for a sandbox, and makes what is missing. It returns nil
// where none are to be kept.
func Open(o Options) (*Caches, error) {
	if o.Bound <= 0 || o.StateDir == "" {
		return nil, nil
	}
	id, err := identify(o.Project.Path)
	if err != nil {
		return nil, fmt.Errorf("opening the project's caches: %w", err)
	}
	k := key{Project: o.Project.Path, File: id, UID: o.Project.Owner.UID, GID: o.Project.Owner.GID, Driver: o.Driver, Image: o.Image}
	text, _ := json.Marshal(k) // never fails
	c := &Caches{dir: filepath.Join(o.StateDir, "caches", fmt.Sprintf("%x", sha256.Sum256(text))[:32])}
	err = locked(o.StateDir, func() error {
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return err
		}
		r, ok := c.read()
		if ok && r.Bytes > o.Bound {
			if err := c.discard(o.StateDir); err != nil && !errors.Is(err, errInUse) {
				return err
			}
			if err := os.MkdirAll(c.dir, 0o700); err != nil {
				return err
			}
			r, ok = c.read()
		}
		if !ok {
			r = record{key: k}
		}
		if err := c.write(r); err != nil {
			return err
		}
		c.use = flock.New(filepath.Join(c.dir, lockFile), flock.SetPermissions(0o600))
		return c.use.RLock()
	})
	if err == nil {
		err = c.fill(o.Project.Owner)
	}
	if err != nil {
		c.release()
		return nil, fmt.Errorf("opening the project's caches: %w", err)
	}
	return c, nil
}

// Fill puts files and links of a Spec into its home, and opens the project's caches for it, which
// the links lead to. home is the home's path inside.
func Fill(spec sandbox.Spec, home string, o Options) (*Caches, error) {
	o.Bound = spec.Caches
	c, err := Open(o)
	if err != nil {
		return nil, err
	}
	at := ""
	if c != nil {
		at = Inside
	}
	spec.HomeLinks = withLinks(spec.HomeLinks, at)
	spec.HomeFiles = maps.Clone(spec.HomeFiles)
	if spec.HomeFiles == nil {
		spec.HomeFiles = map[string][]byte{}
	}
	spec.HomeFiles[pnpmSettings] = []byte("store-dir=" + home + "/" + pnpmStore + "\n")
	if err := spec.FillHome(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Leave has a Spec's home lead to no caches, for a sandbox that shows none.
func Leave(spec sandbox.Spec) error {
	spec.HomeLinks = withLinks(spec.HomeLinks, "")
	return spec.FillHome()
}

// Dir returns the directory that sandboxes get for writing.
func (c *Caches) Dir() string { return filepath.Join(c.dir, filesDir) }

// fill makes the directories of the table where they are missing, for the owner of the project.
func (c *Caches) fill(owner project.Owner) error {
	if err := os.Mkdir(c.Dir(), 0o700); err == nil {
		if err := give(nil, c.Dir(), owner); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := os.OpenRoot(c.Dir())
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, r := range table {
		if info, err := root.Lstat(r.name); err == nil && !info.IsDir() {
			_ = root.Remove(r.name) // a sandbox has put something else there; if this fails, the next fails
		}
		switch err := root.Mkdir(r.name, 0o700); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return err
		default:
			if err := give(root, r.name, owner); err != nil {
				return err
			}
		}
	}
	return nil
}

// give gives a new directory to the user who works in it, if we may.
func give(root *os.Root, name string, owner project.Owner) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if root == nil {
		return os.Lchown(name, owner.UID, owner.GID)
	}
	return root.Lchown(name, owner.UID, owner.GID)
}

// How long measuring may take while somebody waits, and how much more seldom it is done than
// it takes.
const (
	measureTime = 2 * time.Second
	tidyTime    = time.Minute
	seldom      = 1000
)

// Close ends the use of the caches, and measures them when that is due. It may be called of nil,
// and again.
func (c *Caches) Close() {
	if c == nil || c.use == nil {
		return
	}
	if r, ok := c.read(); ok && time.Since(r.At) > seldom*r.Took {
		if bytes, took, whole := measure(c.Dir(), measureTime); whole || bytes > r.Bytes {
			r.Bytes, r.Took, r.At = bytes, took, time.Now()
			_ = c.write(r) // they are measured again
		}
	}
	c.release()
}

func (c *Caches) release() {
	if c.use != nil {
		_ = c.use.Close()
		c.use = nil
	}
}

func (c *Caches) read() (r record, ok bool) {
	text, err := os.ReadFile(filepath.Join(c.dir, recordFile))
	return r, err == nil && json.Unmarshal(text, &r) == nil
}

func (c *Caches) write(r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomic.WriteFile(filepath.Join(c.dir, recordFile), bytes.NewReader(text))
}

var errInUse = errors.New("a sandbox uses them")

// discard moves a project's caches into the trash, unless a sandbox uses them. It is called
// under the lock of all.
func (c *Caches) discard(stateDir string) error {
	l := flock.New(filepath.Join(c.dir, lockFile), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	if !ok {
		return errInUse
	}
	all := filepath.Join(stateDir, "caches", trashDir)
	if err := os.MkdirAll(all, 0o700); err != nil {
		return err
	}
	trash, err := os.MkdirTemp(all, "*")
	if err != nil {
		return err
	}
	return os.Rename(c.dir, filepath.Join(trash, "caches"))
}

// locked runs f while no other process opens or clears away caches.
func locked(stateDir string, f func() error) error {
	dir := filepath.Join(stateDir, "caches")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	l := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	if err := l.Lock(); err != nil {
		return fmt.Errorf("waiting for another gander: %w", err)
	}
	defer func() { _ = l.Close() }()
	return f()
}

// unused holds for how long caches are kept that nobody uses.
const unused = 30 * 24 * time.Hour

// Tidy removes caches that no sandbox uses: those of projects that are no more, that were not
// used for a month or that have more than bound bytes, and with all every one. It returns the
// projects whose caches went.
func Tidy(stateDir string, bound int64, all bool) (projects []string, err error) {
	dir := filepath.Join(stateDir, "caches")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || stateDir == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing caches: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !e.IsDir() {
			continue
		}
		c := &Caches{dir: filepath.Join(dir, e.Name())}
		r, known := c.read()
		if known && !all && !c.outlived(r, bound) {
			continue
		}
		failed := locked(stateDir, func() error { return c.discard(stateDir) })
		switch {
		case failed == nil:
			projects = append(projects, cmp.Or(r.Project, e.Name()))
		case !errors.Is(failed, errInUse) && !errors.Is(failed, fs.ErrNotExist):
			err = errors.Join(err, failed)
		}
	}
	return projects, errors.Join(err, emptyTrash(stateDir))
}

// outlived reports whether caches are of no more use, or too large.
func (c *Caches) outlived(r record, bound int64) bool {
	if id, err := identify(r.Project); errors.Is(err, fs.ErrNotExist) || err == nil && id != r.File {
		return true
	}
	if info, err := os.Stat(filepath.Join(c.dir, recordFile)); err == nil && time.Since(info.ModTime()) > unused {
		return true
	}
	if time.Since(r.At) <= seldom*r.Took {
		return r.Bytes > bound
	}
	bytes, _, whole := measure(c.Dir(), tidyTime)
	return bytes > bound || !whole
}

// emptyTrash removes what was moved away.
func emptyTrash(stateDir string) error {
	all := filepath.Join(stateDir, "caches", trashDir)
	var left []fs.DirEntry
	err := locked(stateDir, func() (err error) { // under the lock each of them is complete
		if left, err = os.ReadDir(all); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	for _, e := range left {
		err = errors.Join(err, registry.RemoveDir(filepath.Join(all, e.Name())))
	}
	if err != nil {
		return fmt.Errorf("removing caches: %w", err)
	}
	return nil
}

// maxWaiting bounds the directories that measuring has seen and not looked into, maxPath the
// length of their paths.
const maxWaiting, maxPath = 200_000, 4 << 10

// measure adds up the sizes of what is in a directory, in bounded time and memory. No link is
// followed out of it. It returns what it has seen, how long that took, and whether that is all.
func measure(dir string, atMost time.Duration) (bytes int64, took time.Duration, whole bool) {
	begun := time.Now()
	defer func() { took = time.Since(begun) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, 0, errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = root.Close() }()
	whole = true
	for waiting := []string{"."}; len(waiting) > 0; {
		at := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		f, err := openDir(root, at)
		if err != nil {
			continue // a sandbox has removed it, or may not read it itself
		}
		for {
			some, err := f.Readdir(1000)
			for _, info := range some {
				switch {
				case info.IsDir() && len(waiting) < maxWaiting && len(at) < maxPath:
					waiting = append(waiting, filepath.Join(at, info.Name()))
				case info.IsDir():
					whole = false
				default:
					bytes += info.Size() / int64(max(project.Links(info), 1))
				}
			}
			if time.Since(begun) > atMost {
				_ = f.Close()
				return bytes, 0, false
			}
			if err != nil {
				break
			}
		}
		_ = f.Close()
	}
	return bytes, 0, whole
}

// openDir opens a directory and nothing else: a sandbox may put a pipe in its place meanwhile.
func openDir(root *os.Root, at string) (*os.File, error) {
	dir, err := root.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return dir.Open(".")
}

package changes

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// savedTree is what is known of a tree, on disk: it spares the next process to
// read every file again, and says nothing that the next look does not check.
type savedTree struct {
	Version int
	Dirs    map[string][]savedEntry
}

const savedVersion = 1

type savedEntry struct {
	Name               string
	Dev, Ino           uint64
	Size, Mtime, Ctime int64
	Kind               uint8
	Mode, UID          uint32
	Names              uint64
	Hidden, Read, Racy bool
	Sum                sum
}

func (t *Tree) treeFile() string { return filepath.Join(t.store.dir, "tree") }

// load is what was saved, or nothing.
func (t *Tree) load() *manifest {
	m := &manifest{dirs: map[string]*listing{}, note: map[string]string{}}
	f, err := os.Open(t.treeFile())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.log.Warn("reading what is known of the project's files", "err", err)
		}
		return m
	}
	defer f.Close()
	var saved savedTree
	if err := gob.NewDecoder(bufio.NewReader(f)).Decode(&saved); err != nil || saved.Version != savedVersion {
		t.log.Warn("what is known of the project's files is read anew", "err", err)
		return m
	}
	for dir, entries := range saved.Dirs {
		l := &listing{entries: make([]entry, len(entries))}
		for i, e := range entries {
			l.entries[i] = entry{
				name:   e.Name,
				info:   info{stamp: stamp{e.Dev, e.Ino, e.Size, e.Mtime, e.Ctime}, kind: kind(e.Kind), mode: fs.FileMode(e.Mode), names: e.Names, uid: e.UID},
				hidden: e.Hidden, read: e.Read, racy: e.Racy, sum: e.Sum,
			}
		}
		m.dirs[dir] = l
	}
	return m
}

// save writes down what is known. What was before something was to be forgotten stays as
// it is: the next process sees by that what is. mu is held.
func (t *Tree) save() error {
	if !t.dirty || t.shut {
		return nil
	}
	saved := savedTree{Version: savedVersion, Dirs: make(map[string][]savedEntry, len(t.last.dirs))}
	for dir, l := range t.last.dirs {
		entries := make([]savedEntry, len(l.entries))
		for i, e := range l.entries {
			entries[i] = savedEntry{
				Name: e.name, Dev: e.dev, Ino: e.ino, Size: e.size, Mtime: e.mtime, Ctime: e.ctime, Kind: uint8(e.kind),
				Mode: uint32(e.mode), UID: e.uid, Names: e.names, Hidden: e.hidden, Read: e.read, Racy: e.racy, Sum: e.sum,
			}
		}
		saved.Dirs[dir] = entries
	}
	err := writeFile(t.treeFile(), func(f *os.File) error {
		w := bufio.NewWriter(f)
		return errors.Join(gob.NewEncoder(w).Encode(saved), w.Flush())
	})
	if err != nil {
		return fmt.Errorf("writing what is known of the project's files: %w", err)
	}
	t.dirty = false
	return nil
}

// Sweep removes what is kept below [Options].Dir of projects that nobody opened for
// that long, at least a day. What a process has open stays.
func Sweep(dir string, unused time.Duration) error {
	projects, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for what is kept of projects: %w", err)
	}
	var errs []error
	for _, p := range projects {
		at := filepath.Join(dir, p.Name())
		info, err := os.Stat(filepath.Join(at, "tree"))
		if err != nil || time.Since(info.ModTime()) < max(unused, 24*time.Hour) {
			continue
		}
		lock := flock.New(filepath.Join(at, inUseFile))
		if ok, err := lock.TryLock(); ok && err == nil {
			errs = append(errs, os.RemoveAll(at))
		}
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

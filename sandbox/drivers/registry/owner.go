package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// Owner is the gander that a sandbox belongs to, and where its process id means
// something.
type Owner struct {
	Host    ProcessRef `json:"host"`
	Machine string     `json:"machine"`
}

// Self is this process as an owner.
func Self() Owner { return Owner{Process(os.Getpid()), Machine()} }

// Dead says whether the owner has provably ended: it does not run any more on this
// machine, or the machine was started anew since. An owner on another machine, or
// in another container, is never dead for us.
func (o Owner) Dead() bool {
	return o.Here() && !o.Host.Alive() || rebooted(o.Machine, Machine())
}

// Here says whether process ids of the owner mean something to this process.
func (o Owner) Here() bool { return sameProcesses(o.Machine, Machine()) }

// The files that say whose a sandbox's directory is; that of the lock is beside
// the directories, as is the one of what is being removed.
const (
	ownerFile = "owner.json"
	keepFile  = "keep"
	lockFile  = ".lock"
	trashDir  = ".trash"
)

// Claim makes the directory of a sandbox, or takes over the one that a dead gander
// left, with everything in it. From then on it is this process's, whether a
// sandbox runs in it or not, until it is removed. It returns the directory.
func Claim(stateDir, id string) (string, error) {
	dir := filepath.Join(sandboxesDir(stateDir), id)
	err := locked(stateDir, func() error {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		return write(dir, ownerFile, Self())
	})
	if err != nil {
		return "", fmt.Errorf("making the sandbox's directory: %w", err)
	}
	return dir, nil
}

// Keep marks a claimed directory as one that outlives its owner: agents continue
// conversations with what is in it. It stays until somebody removes it.
func Keep(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, keepFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("marking a sandbox's directory as one to keep: %w", err)
	}
	return nil
}

// kept reports whether a directory outlives its owner.
func kept(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, keepFile))
	return err == nil
}

// Kept are the sandboxes below stateDir whose directories are marked with Keep and
// belong to no living gander.
func Kept(stateDir string) (ids []string, err error) {
	entries, err := os.ReadDir(sandboxesDir(stateDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(sandboxesDir(stateDir), e.Name())
		if o, owned := ownerOf(dir); kept(dir) && (!owned || o.Dead()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// RemoveKept removes a sandbox's directory that is marked with Keep, unless its
// owner lives.
func RemoveKept(stateDir, id string) error {
	_, err := discard(stateDir, id, true)
	return err
}

// Disown gives up a directory that is kept: whoever wants it may claim it.
func Disown(dir string) { _ = os.Remove(filepath.Join(dir, ownerFile)) }

// locked runs f while no other process claims or clears away directories.
func locked(stateDir string, f func() error) error {
	if err := os.MkdirAll(sandboxesDir(stateDir), 0o700); err != nil {
		return err
	}
	l := flock.New(filepath.Join(sandboxesDir(stateDir), lockFile), flock.SetPermissions(0o600))
	if err := l.Lock(); err != nil {
		return fmt.Errorf("waiting for another gander: %w", err)
	}
	defer func() { _ = l.Unlock() }()
	return f()
}

// ownerOf is who claimed a directory last; false when nobody has.
func ownerOf(dir string) (o Owner, ok bool) {
	body, err := os.ReadFile(filepath.Join(dir, ownerFile))
	return o, err == nil && json.Unmarshal(body, &o) == nil
}

// GC clears away directories below stateDir in which no sandbox runs and whose
// owner has died: homes of agents that had ended when it did. Those with a record
// are for the drivers, see Clear; those marked with Keep stay. It returns the ids.
func GC(stateDir string) (cleared []string, err error) {
	if stateDir == "" {
		return nil, nil
	}
	emptyTrash(stateDir)
	entries, err := os.ReadDir(sandboxesDir(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(sandboxesDir(stateDir), e.Name())
		if _, err := os.Stat(filepath.Join(dir, recordFile)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if o, ok := ownerOf(dir); !ok || !o.Dead() || kept(dir) {
			continue
		}
		removed, rerr := discard(stateDir, e.Name(), false)
		if err = errors.Join(err, rerr); removed {
			cleared = append(cleared, e.Name())
		}
	}
	return cleared, err
}

// emptyTrash removes what a gander that was killed has moved away and not removed.
// Another may be at it, too.
func emptyTrash(stateDir string) {
	all := filepath.Join(sandboxesDir(stateDir), trashDir)
	if _, err := os.Lstat(all); err != nil {
		return
	}
	var left []fs.DirEntry
	_ = locked(stateDir, func() (err error) { // under the lock each of them is complete
		left, err = os.ReadDir(all)
		return err
	})
	for _, e := range left {
		_ = RemoveDir(filepath.Join(all, e.Name()))
	}
}

// discard removes a sandbox's directory unless its owner lives; of one that is
// kept, without evenKept, only what says that a sandbox runs in it. What is claimed
// meanwhile stays, because the directory is moved away first, under the lock.
func discard(stateDir, id string, evenKept bool) (removed bool, err error) {
	dir, trash := filepath.Join(sandboxesDir(stateDir), id), ""
	err = locked(stateDir, func() error {
		if o, ok := ownerOf(dir); ok && !o.Dead() {
			return nil
		}
		if kept(dir) && !evenKept {
			Disown(dir)
			removed = os.Remove(filepath.Join(dir, recordFile)) == nil
			return nil
		}
		all := filepath.Join(sandboxesDir(stateDir), trashDir)
		err := os.MkdirAll(all, 0o700)
		if err != nil {
			return err
		}
		if trash, err = os.MkdirTemp(all, "*"); err != nil {
			return err
		}
		err = os.Rename(dir, filepath.Join(trash, "sandbox"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another one was quicker
		}
		removed = err == nil
		return err
	})
	if trash != "" {
		err = errors.Join(err, RemoveDir(trash))
	}
	if err != nil {
		return false, fmt.Errorf("clearing sandbox %s away: %w", id, err)
	}
	return removed, nil
}

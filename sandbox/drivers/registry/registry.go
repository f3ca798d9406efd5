// Package registry remembers the sandboxes of this machine in files, so that
// other processes can list and end them, and clear away what a killed gander
// left. Each sandbox has a directory below the state directory,
// sandboxes/<id>, which also holds the agent's home; the record is a file in it.
//
// Who wants such a directory calls [Claim] first. Drivers call [Register] for a
// sandbox and [Entry.Remove] when it has ended. What is cleared away belongs to a
// gander that is provably dead ([Owner]): it was a process of this boot of this
// machine that does not run any more, or one of an earlier boot.
// Everything here is safe for concurrent use by several processes.
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/sandbox/inside/supervise"
)

// GroupPrefix begins the name of every control group that gander makes; its sandbox's id
// follows.
const GroupPrefix = "gander-"

// ErrNotFound is returned for an id that is not registered.
var ErrNotFound = errors.New("no such sandbox; gander sandbox list shows those that run")

// Record is what is known of a sandbox.
type Record struct {
	ID         string            `json:"id"`
	Driver     string            `json:"driver"`
	Labels     map[string]string `json:"labels,omitempty"`
	WorkingDir string            `json:"workingDir"`
	Created    time.Time         `json:"created"`
	// Owner is the gander that made it.
	Owner
	// Supervisor is the process that it lives with, where that is one of this machine's.
	Supervisor ProcessRef `json:"supervisor"`
	// Groups are the directories of its control groups.
	Groups []string `json:"groups,omitempty"`
	// Container is the id of its container, if it is one.
	Container string `json:"container,omitempty"`
}

// ProcessRef names a process for all time. Start is when it began, in units of
// the operating system.
type ProcessRef struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Process is the reference to a process that runs, or else the zero value.
func Process(pid int) ProcessRef {
	start, err := supervise.ProcessStart(pid)
	if err != nil {
		return ProcessRef{}
	}
	return ProcessRef{pid, start}
}

// Alive says whether exactly this process still runs.
func (r ProcessRef) Alive() bool {
	start, err := supervise.ProcessStart(r.PID)
	return err == nil && r.PID != 0 && start == r.Start
}

const recordFile = "sandbox.json"

func sandboxesDir(stateDir string) string { return filepath.Join(stateDir, "sandboxes") }

// Entry is a record on disk. The zero value is none.
type Entry struct{ dir string }

// Register claims the directory of a sandbox, whose ID is safe in a file name, and
// writes its record; a driver does so again when it knows more. With an empty
// stateDir it does nothing.
func Register(stateDir string, r Record) (Entry, error) {
	if stateDir == "" {
		return Entry{}, nil
	}
	dir, err := Claim(stateDir, r.ID)
	if err == nil {
		err = write(dir, recordFile, r)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("registering the sandbox: %w", err)
	}
	return Entry{dir}, nil
}

// Remove removes the record, and the directory when that has nothing else.
func (e Entry) Remove() {
	if e.dir == "" {
		return
	}
	_ = os.Remove(filepath.Join(e.dir, recordFile))
	if rest, err := os.ReadDir(e.dir); err != nil || len(rest) > 1 {
		return // a home is there, which stays this gander's
	}
	_ = os.Remove(filepath.Join(e.dir, ownerFile))
	_ = os.Remove(e.dir)
}

// write replaces a file at one stroke, so that a reader never sees half of it.
func write(dir, name string, content any) error {
	body, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, name+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(body, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// List returns the sandboxes that are registered below stateDir, the dead too;
// with an empty stateDir none.
func List(stateDir string) ([]Record, error) {
	if stateDir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(sandboxesDir(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var list []Record
	for _, e := range entries {
		// Directories without a record are homes of sandboxes that do not run.
		if r, err := read(filepath.Join(sandboxesDir(stateDir), e.Name())); err == nil {
			list = append(list, r)
		}
	}
	return list, nil
}

// Get returns one record, or ErrNotFound.
func Get(stateDir, id string) (Record, error) {
	if !isName(id) {
		return Record{}, ErrNotFound
	}
	r, err := read(filepath.Join(sandboxesDir(stateDir), id))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, ErrNotFound
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading the record of sandbox %s: %w", id, err)
	}
	return r, nil
}

// isName reports whether an id can be that of a sandbox's directory. Records are also made of
// the labels of containers, which images may bring along.
func isName(id string) bool {
	return filepath.IsLocal(id) && filepath.Base(id) == id && !strings.HasPrefix(id, ".")
}

// AwaitEnd waits, for so long at most, for the end of a sandbox that a killed gander
// has left: its supervisor ends with it, but not at the same moment.
func AwaitEnd(ctx context.Context, stateDir, id string, atMost time.Duration) error {
	ctx, done := context.WithTimeout(ctx, atMost)
	defer done()
	for {
		r, err := Get(stateDir, id)
		if err != nil || !r.Dead() || !r.Supervisor.Alive() {
			return nil
		}
		select {
		case <-time.After(endPause):
		case <-ctx.Done():
			return fmt.Errorf("the sandbox %s of a killed gander still runs; end it with: gander sandbox stop %s", id, id)
		}
	}
}

// endPause is between two looks at a process of somebody else's.
const endPause = 20 * time.Millisecond

func read(dir string) (r Record, err error) {
	body, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(body, &r)
	return r, err
}

// Clear removes what a sandbox that no longer runs left: its control groups, and below
// stateDir all of its directory, or only the record when that is marked with Keep. It says
// whether there was anything: a directory that a living gander has claimed since stays.
func Clear(stateDir string, r Record) (bool, error) {
	if !isName(r.ID) {
		return false, nil
	}
	removed, err := discard(stateDir, r.ID, false)
	if removed {
		removeGroups(r)
	}
	return removed, err
}

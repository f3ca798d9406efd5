package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/natefinch/atomic"

	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// Desired is what the person wants of a run.
type Desired string

// The desired states.
const (
	Running Desired = "running"
	Paused  Desired = "paused"
	Stopped Desired = "stopped"
)

// Spec is what a run is made of: the content of run.json.
type Spec struct {
	RunID     string `json:"runId"`
	SessionID string `json:"sessionId"`
	Agent     string `json:"agent"`
	// Driver is a --sandbox choice; empty is the configuration's.
	Driver string `json:"driver,omitempty"`
	// Workspace is the project: absolute, on the host and inside.
	Workspace string        `json:"workspace"`
	Model     string        `json:"model,omitempty"`
	Pace      time.Duration `json:"pace,omitempty"`
	Limits    loop.Limits   `json:"limits"`
	// Prompt is the run's own one as it was when the run started; nil without one.
	Prompt  *string   `json:"prompt,omitempty"`
	Desired Desired   `json:"desired"`
	Created time.Time `json:"created"`
}

// Dir is the directory of a run. Several processes use it: who starts runs writes
// run.json and the token, the keeper everything else.
type Dir struct {
	// RunID names the run; Path is absolute.
	RunID, Path string
}

// The files of a run's directory. KeeperLog is the log of its keeper.
const (
	specFile  = "run.json"
	specLock  = "run.lock"
	lockFile  = "keeper.lock"
	tokenFile = "token"
	addrFile  = "keeper.addr"
	sockFile  = "keeper.sock"
	spoolDir  = "spool"
	stateDir  = "state"
	homeDir   = "home"
	gitDir    = "git"

	KeeperLog = "keeper.log"
)

var safeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// ErrNoRun is returned for a run that has no directory.
var ErrNoRun = errors.New("no such run")

// RunsDir is where the directories of runs are, below gander's home.
func RunsDir(home string) string { return filepath.Join(home, "loop", "runs") }

// RunDir is the directory of a run, which need not exist. An error means that the
// id cannot be one.
func RunDir(home, runID string) (Dir, error) {
	if len(runID) > 64 || !safeID.MatchString(runID) {
		return Dir{}, fmt.Errorf("%w: %q is not the id of one", ErrNoRun, runID)
	}
	return Dir{RunID: runID, Path: filepath.Join(RunsDir(home), runID)}, nil
}

// Runs are the directories of all runs below gander's home, also of those that have ended.
func Runs(home string) ([]Dir, error) {
	entries, err := os.ReadDir(RunsDir(home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	var dirs []Dir
	for _, e := range entries {
		if d, err := RunDir(home, e.Name()); err == nil && e.IsDir() {
			dirs = append(dirs, d)
		}
	}
	return dirs, nil
}

func (d Dir) file(name string) string { return filepath.Join(d.Path, name) }

// Write makes the directory with what the run is to be and the token with which
// its telemetry is sent. A run that is there is replaced.
func (d Dir) Write(s Spec, token string) error {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return fmt.Errorf("making the run's directory: %w; choose a home that you can write with --home or GANDER_HOME", err)
	}
	if err := writeFile(d.file(tokenFile), []byte(token)); err != nil {
		return fmt.Errorf("keeping the token of run %s: %w", d.RunID, err)
	}
	return d.locked(func() error { return d.save(s) })
}

func (d Dir) save(s Spec) error {
	if err := writeJSON(d.file(specFile), s); err != nil {
		return fmt.Errorf("keeping run %s: %w", d.RunID, err)
	}
	return nil
}

// Spec is what the run is to be. The error is ErrNoRun when it is not there.
func (d Dir) Spec() (Spec, error) {
	var s Spec
	raw, err := os.ReadFile(d.file(specFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%w: %s; gander loop status shows those there are", ErrNoRun, d.RunID)
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return s, fmt.Errorf("reading run %s: %w; a run whose directory is damaged cannot go on: remove %s", d.RunID, err, d.Path)
	}
	return s, nil
}

// SetDesired changes what is wanted of the run.
func (d Dir) SetDesired(to Desired) error {
	return d.locked(func() error {
		s, err := d.Spec()
		if err != nil || s.Desired == to {
			return err
		}
		s.Desired = to
		return d.save(s)
	})
}

// Token is what the run's telemetry is sent with.
func (d Dir) Token() (string, error) {
	raw, err := os.ReadFile(d.file(tokenFile))
	if err != nil {
		return "", fmt.Errorf("reading the token of run %s: %w", d.RunID, err)
	}
	return string(raw), nil
}

// locked runs f while no other process changes what the run is to be.
func (d Dir) locked(f func() error) error {
	l := flock.New(d.file(specLock), flock.SetPermissions(0o600))
	if err := l.Lock(); err != nil {
		return fmt.Errorf("waiting for another gander that changes run %s: %w", d.RunID, err)
	}
	defer func() { _ = l.Unlock() }()
	return f()
}

// ErrKept is returned when a run has a keeper already.
var ErrKept = errors.New("the run has a keeper already")

// claim makes this process the keeper of the run, until release is called or the
// process ends.
func (d Dir) claim() (release func(), err error) {
	l := flock.New(d.file(lockFile), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), claimTime) // Kept holds it for a moment
	defer cancel()
	if mine, err := l.TryLockContext(ctx, claimPause); !mine {
		if errors.Is(err, context.DeadlineExceeded) {
			err = ErrKept
		}
		return nil, fmt.Errorf("claiming run %s: %w", d.RunID, err)
	}
	return func() { _ = l.Unlock() }, nil
}

const (
	claimTime  = 2 * time.Second
	claimPause = 20 * time.Millisecond
)

// Kept reports whether a keeper of the run lives.
func (d Dir) Kept() bool {
	if _, err := os.Stat(d.file(lockFile)); err != nil {
		return false
	}
	l := flock.New(d.file(lockFile), flock.SetPermissions(0o600))
	free, err := l.TryRLock()
	if free {
		_ = l.Unlock()
	}
	return err == nil && !free
}

// Tidy removes what the sandboxes of runs that have ended left below gander's home: a
// keeper that was killed could not. It is only what agents keep for themselves.
func Tidy(home string) error {
	dirs, err := Runs(home)
	for _, d := range dirs {
		if s, specErr := d.Spec(); specErr == nil && s.Desired == Stopped && !d.Kept() {
			err = errors.Join(err, d.clear())
		}
	}
	return err
}

// clear removes what a sandbox of the run leaves. None may run.
func (d Dir) clear() error {
	return errors.Join(registry.RemoveDir(d.file(homeDir)), registry.RemoveDir(d.GitStore()))
}

// GitStore is a directory for sandbox.Rules.GitStore. It goes away with the run's home.
func (d Dir) GitStore() string { return d.file(gitDir) }

// sandboxPrefix begins the ids of sandboxes of runs.
const sandboxPrefix = "loop-"

// SandboxID is the run's sandbox in gander sandbox list.
func (d Dir) SandboxID() string { return sandboxPrefix + d.RunID }

// DirOf is the directory of the run that a sandbox is of; false when it is of none.
func DirOf(home, sandboxID string) (Dir, bool) {
	run, ok := strings.CutPrefix(sandboxID, sandboxPrefix)
	d, err := RunDir(home, run)
	return d, ok && err == nil
}

// writeJSON replaces a file at one stroke; a crash leaves the old or the new one.
func writeJSON(path string, content any) error {
	raw, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(raw, '\n'))
}

func writeFile(path string, content []byte) error {
	if err := atomic.WriteFile(path, bytes.NewReader(content)); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

// readJSON reads a file that need not be there.
func readJSON(path string, content any) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, content)
	}
	return err
}

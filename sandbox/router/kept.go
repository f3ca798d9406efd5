package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/team/artifacts"
	"gander.dev/gander/sessions"
)

// Kept is where all that is kept of sessions is.
type Kept struct {
	// Store has what was said.
	Store *sessions.Store
	// Runs are the traces of turns; nil where there are none.
	Runs *sessions.Runs
	// StateDir is gander's home, below which agents have what they remember.
	StateDir string
	// Snapshots is the directory of what files were before turns, see
	// [changes.Options]; empty where there is none.
	Snapshots string
	// MaxAge bounds the age of artifacts of runs; 0 keeps them as long as their sessions.
	MaxAge time.Duration
}

func (r *Router) kept() Kept {
	return Kept{Store: r.opts.Store, Runs: r.opts.Runs, StateDir: r.opts.StateDir, Snapshots: r.opts.Snapshots}
}

// Erase removes a session and what is kept beside it. One that somebody has open is
// sessions.ErrInUse and stays; of one that is not there only the rest is removed.
// Files that /export wrote are the person's and stay. Sessions that worked for it go with it,
// and so do their artifacts.
func (k Kept) Erase(ctx context.Context, id acp.SessionID) error {
	info, err := k.Store.Info(ctx, id)
	if err != nil && !errors.Is(err, sessions.ErrNotFound) {
		return err
	}
	if err := k.eraseDelegates(ctx, id, info.Temporary); err != nil {
		return err
	}
	if err := k.Store.Delete(ctx, id); err != nil && !errors.Is(err, sessions.ErrNotFound) {
		return err
	}
	err = errors.Join(k.forget(id), artifacts.Forget(k.Artifacts(), string(id)))
	if k.Runs != nil {
		err = errors.Join(err, k.Runs.Forget(id))
	}
	if k.Snapshots != "" && info.RealPath != "" {
		err = errors.Join(err, changes.Forget(ctx, k.Snapshots, info.RealPath, string(id)))
	}
	if err != nil {
		return fmt.Errorf("session %s is deleted, but not all that was kept of it: %w", id, err)
	}
	return nil
}

// Artifacts is the directory of what the agents of a run leave for each other.
func (k Kept) Artifacts() string { return filepath.Join(k.StateDir, "artifacts") }

// eraseDelegates erases the sessions that did work for one.
func (k Kept) eraseDelegates(ctx context.Context, parent acp.SessionID, temporary bool) error {
	page, err := k.Store.List(ctx, sessions.ListOptions{Parent: parent, Temporary: temporary})
	for i := range page.Sessions {
		err = errors.Join(err, k.Erase(ctx, page.Sessions[i].ID))
	}
	return err
}

// forget removes what agents keep of a session, and what it has spent. Of a session
// that is open nothing is removed that its agents keep.
func (k Kept) forget(id acp.SessionID) error {
	kept, err := registry.Kept(k.StateDir)
	if e := os.Remove(confine.SpentPath(k.StateDir, id)); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	for _, name := range kept {
		if sessionOf(name) == id {
			err = errors.Join(err, registry.RemoveKept(k.StateDir, name))
		}
	}
	return err
}

// sessionOf is the session that a sandbox is named after, see sandboxID.
func sessionOf(sandboxID string) acp.SessionID {
	const length = len("01a200c2-695c-751e-bf30-2a9c430d9f95")
	return acp.SessionID(sandboxID[max(0, len(sandboxID)-length):])
}

// maxKept is how many agents' conversations are kept of sessions that are not open;
// of more the ones that were used longest ago are told again from the transcript.
const maxKept = 200

// Tidy removes the sessions of killed processes of which nothing is to be kept, what
// agents keep of sessions that are no more, and what is beyond maxKept.
func (k Kept) Tidy(ctx context.Context) error {
	err := errors.Join(k.eraseTemporary(ctx), artifacts.Tidy(k.Artifacts(), k.MaxAge))
	kept, e := registry.Kept(k.StateDir)
	if e != nil {
		return errors.Join(err, e)
	}
	used := map[string]time.Time{}
	for _, name := range kept {
		info, e := k.Store.Info(ctx, sessionOf(name))
		if e != nil && !errors.Is(e, sessions.ErrNotFound) {
			return errors.Join(err, e)
		}
		used[name] = info.UpdatedAt // zero for a session that is no more
	}
	slices.SortFunc(kept, func(a, b string) int { return used[b].Compare(used[a]) })
	for i, name := range kept {
		if i >= maxKept || used[name].IsZero() {
			err = errors.Join(err, registry.RemoveKept(k.StateDir, name))
		}
	}
	return err
}

// eraseTemporary removes the temporary sessions that nobody has open.
func (k Kept) eraseTemporary(ctx context.Context) error {
	page, err := k.Store.List(ctx, sessions.ListOptions{Temporary: true, Delegates: true})
	for i := range page.Sessions {
		if e := k.Erase(ctx, page.Sessions[i].ID); e != nil && !errors.Is(e, sessions.ErrInUse) {
			err = errors.Join(err, e)
		}
	}
	return err
}

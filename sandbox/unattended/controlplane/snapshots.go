package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"gander.dev/gander/sandbox/telemetry"
)

// A snapshot is a workspace as it was.
type snapshot struct {
	ID        int64   `json:"id"`
	Label     string  `json:"label"`
	Agent     string  `json:"agentType"`
	Filename  string  `json:"filename"`
	Size      int64   `json:"sizeBytes"`
	CreatedAt string  `json:"createdAt"`
	RunID     *string `json:"runId"`

	sum string // SHA-256 of the file, in hexadecimal
}

const (
	maxLabel        = 200
	snapshotTimeout = time.Hour
)

func readSnapshots(ctx context.Context, q querier, where string, args ...any) ([]snapshot, error) {
	rows, err := q.QueryContext(ctx, `SELECT s.id, s.label, s.agent, s.filename, s.size, s.created, s.sum, r.id
		FROM snapshots s LEFT JOIN runs r ON r.key = s.run `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading snapshots: %w", err)
	}
	defer rows.Close()
	out := []snapshot{}
	for rows.Next() {
		var s snapshot
		var created int64
		if err := rows.Scan(&s.ID, &s.Label, &s.Agent, &s.Filename, &s.Size, &created, &s.sum, &s.RunID); err != nil {
			return nil, fmt.Errorf("reading a snapshot: %w", err)
		}
		s.CreatedAt = iso(created)
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading snapshots: %w", err)
	}
	return out, nil
}

func (p *Plane) snapshotDir() string { return filepath.Join(p.o.Dir, "snapshots") }

// snapshot is the one that a request names.
func (p *Plane) snapshot(r *http.Request) (snapshot, error) {
	found, err := readSnapshots(r.Context(), p.db.read, "WHERE s.id = ?", r.PathValue("id"))
	if err != nil {
		return snapshot{}, err
	}
	if len(found) == 0 {
		return snapshot{}, fail(http.StatusNotFound, "there is no snapshot %q", r.PathValue("id"))
	}
	return found[0], nil
}

func (p *Plane) snapshots(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit", 50, 1, maxPage)
	if err != nil {
		return err
	}
	found, err := readSnapshots(r.Context(), p.db.read, "ORDER BY s.id DESC LIMIT ?", limit)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"snapshots": found})
	return nil
}

func (p *Plane) capture(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Label string `json:"label"`
		RunID string `json:"runId"`
	}
	if err := readBody(w, r, &body, true); err != nil {
		return err
	}
	if utf8.RuneCountInString(body.Label) > maxLabel {
		return fail(http.StatusUnprocessableEntity, "a label has at most %d characters", maxLabel)
	}
	if id := r.URL.Query().Get("run"); id != "" {
		body.RunID = id
	}
	run, err := p.choose(r, body.RunID)
	if err != nil {
		return err
	}
	done, err := p.store()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := p.longWork(r)
	defer cancel()
	s, err := p.captureRun(ctx, run, strings.TrimSpace(body.Label))
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, s)
	return nil
}

// store begins work with snapshots, one at a time, until done is called; none begins after Close.
func (p *Plane) store() (done func(), err error) {
	select {
	case p.storing <- struct{}{}:
		return func() { <-p.storing }, nil
	default:
		return nil, fail(http.StatusConflict, "another snapshot is being made, restored or removed: try again when that is done")
	}
}

// longWork is for what takes longer than a server may allow a request otherwise; it ends
// with the request and with the control plane.
func (p *Plane) longWork(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), snapshotTimeout)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// captureRun makes a snapshot of a run's workspace. Its file is whole or not there.
func (p *Plane) captureRun(ctx context.Context, run *Run, label string) (s snapshot, err error) {
	root, err := openWorkspace(run)
	if err != nil {
		return s, err
	}
	defer root.Close()
	now := p.now()
	if label == "" {
		label = run.Agent + " " + oldTime(now)
	}
	s = snapshot{Label: label, Agent: run.Agent, CreatedAt: iso(now), RunID: &run.RunID}
	if err := os.MkdirAll(p.snapshotDir(), 0o700); err != nil {
		return s, fmt.Errorf("making the directory of snapshots: %w", err)
	}
	f, err := os.CreateTemp(p.snapshotDir(), unfinished+"*")
	if err != nil {
		return s, fmt.Errorf("making a snapshot: %w", err)
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	hash := sha256.New()
	err = pack(ctx, root, io.MultiWriter(f, hash), p.o.SnapshotBytes)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		s.Size, err = f.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return s, err
	}
	s.sum = hex.EncodeToString(hash.Sum(nil))
	s.Filename = fmt.Sprintf("%s-%s-%s.tar.gz", run.Agent, time.UnixMilli(now).UTC().Format("20060102-150405"), strings.ToLower(rand.Text()[:8]))
	if err := os.Rename(f.Name(), filepath.Join(p.snapshotDir(), s.Filename)); err != nil {
		return s, fmt.Errorf("keeping a snapshot: %w", err)
	}
	syncNames(p.snapshotDir()) // before anything relies on it
	return s, p.db.write(ctx, func(t *tx) error {
		res, err := t.exec("INSERT INTO snapshots (run, label, agent, filename, size, sum, created) VALUES (?,?,?,?,?,?,?)",
			run.key, s.Label, s.Agent, s.Filename, s.Size, s.sum, now)
		if err == nil {
			s.ID, err = res.LastInsertId()
		}
		return err
	})
}

// unfinished begins the names of snapshots that are being made.
const unfinished = ".new-"

// clearSnapshots removes what a crash left of snapshots that were being made.
func (p *Plane) clearSnapshots() {
	entries, _ := os.ReadDir(p.snapshotDir()) // there may be none
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		if err := os.Remove(filepath.Join(p.snapshotDir(), e.Name())); err != nil {
			p.log.Warn("half a snapshot is left; remove the file", "err", err)
		}
	}
}

// syncNames makes the names in a directory last, where the system can.
func syncNames(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// restore puts a snapshot in the place of all that is in a workspace: of the run it is
// of, or the one that runId names. What was there is a snapshot afterwards.
func (p *Plane) restore(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		RunID string `json:"runId"`
	}
	if err := readBody(w, r, &body, true); err != nil {
		return err
	}
	s, err := p.snapshot(r)
	if err != nil {
		return err
	}
	if id := r.URL.Query().Get("run"); id != "" {
		body.RunID = id
	}
	if body.RunID == "" && s.RunID != nil {
		body.RunID = *s.RunID
	}
	if body.RunID == "" {
		return fail(http.StatusConflict, "the run of this snapshot is gone: name the run whose workspace it is to be, by runId")
	}
	run, err := p.find(r.Context(), target{RunID: body.RunID})
	if err != nil {
		return err
	}
	done, err := p.store()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := p.longWork(r)
	defer cancel()
	defer p.restoring.Store(nil)
	if err := p.reserve(ctx, run.Workspace); err != nil {
		return err
	}
	before, err := p.restoreRun(ctx, run, s)
	if err != nil {
		return err
	}
	p.log.Info("a workspace was restored", "run", run.RunID, "snapshot", s.ID, "before", before.ID)
	answer(w, http.StatusOK, map[string]any{
		"containerId": run.ContainerID, "agentType": run.Agent, "snapshotId": s.ID, "runId": run.RunID, "before": before,
	})
	return nil
}

func (p *Plane) restoreRun(ctx context.Context, run *Run, s snapshot) (before snapshot, err error) {
	f, err := p.openSnapshot(s)
	if err != nil {
		return before, err
	}
	defer f.Close()
	if err := verify(ctx, f, s); err != nil {
		return before, err
	}
	if before, err = p.captureRun(ctx, run, "before restoring "+s.Label); err != nil {
		return before, fmt.Errorf("keeping what is in the workspace: %w", err)
	}
	root, err := openWorkspace(run)
	if err != nil {
		return before, err
	}
	defer root.Close()
	uid, gid := workspaceOwner(root)
	// From here on it is finished, also when the browser goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotTimeout)
	defer cancel()
	defer context.AfterFunc(p.late, cancel)()
	torn := fmt.Sprintf("the workspace is not whole: restoring snapshot %d in it has not ended; unless that is under way, restore a snapshot again (what was there is snapshot %d)", s.ID, before.ID)
	if err := p.tear(ctx, run.RunID, torn); err != nil {
		return before, err
	}
	if err = empty(root); err == nil {
		err = unpack(ctx, root, f, uid, gid)
	}
	if err == nil {
		err = flush(root) // before the mark goes: power may be lost
	}
	if err != nil {
		p.log.Error("a snapshot was not restored to its end", "run", run.RunID, "snapshot", s.ID, "before", before.ID, "error", err)
		return before, fail(http.StatusInternalServerError, "the workspace is not whole, as restoring snapshot %d in it has failed: %v; restore a snapshot again (what was there is snapshot %d)", s.ID, err, before.ID)
	}
	return before, p.mend(context.WithoutCancel(ctx), run.Workspace)
}

// tear notes that the workspace of a run is not whole from now on, whatever ends meanwhile.
func (p *Plane) tear(ctx context.Context, id, why string) error {
	return p.change(ctx, id, func(t *tx, r *Run) error { return setTorn(t, r, why) })
}

// mend notes that a workspace, with all below it, is whole.
func (p *Plane) mend(ctx context.Context, workspace string) error {
	return p.db.write(ctx, func(t *tx) error {
		runs, err := readRuns(t.ctx, t, whereTorn)
		for _, r := range runs {
			if err != nil || !below(r.Workspace, workspace) {
				continue
			}
			err = setTorn(t, r, "")
			t.then(func() { p.hub.tell(r.RunID, "run", r, p.now()) })
		}
		return err
	})
}

func setTorn(t *tx, r *Run, why string) error {
	r.Torn = why
	_, err := t.exec("UPDATE runs SET torn=? WHERE key=?", why, r.key)
	return err
}

// reserve makes a workspace p.restoring, when no agent works in it. As long as it is, no run
// is started there, or goes on.
func (p *Plane) reserve(ctx context.Context, workspace string) error {
	others, err := occupants(ctx, p.db.read, workspace)
	if err != nil {
		return err
	}
	busy := map[string]string{} // empty: the run rests
	for _, r := range others {
		defer p.steering.lock(r.RunID)() // no order is on its way to it
		busy[r.RunID] = p.busy(ctx, r)
	}
	return p.db.write(ctx, func(t *tx) error { // between two starts, not beside one
		others, err := occupants(t.ctx, t, workspace)
		if err != nil {
			return err
		}
		for _, r := range others {
			why, asked := busy[r.RunID]
			if !asked {
				why = "has just begun there"
			}
			if why != "" {
				return fail(http.StatusConflict, "run %s, whose workspace is %s, %s: pause or stop it first", r.RunID, r.Workspace, why)
			}
		}
		p.restoring.Store(&workspace)
		return nil
	})
}

// busy says why an agent of a run may work now; empty when none does. Its keeper is asked:
// what the loop has told may be on its way, and be of before the last order.
func (p *Plane) busy(ctx context.Context, r *Run) string {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	switch s, err := p.o.Fleet.Status(ctx, r.RunID); {
	case err != nil:
		p.log.Debug("a keeper did not answer", "run", r.RunID, "error", err)
		return "has a keeper that does not answer"
	case s.Resting:
		return ""
	case r.State == telemetry.Paused: // it does what it was told last
		return "has not paused again yet"
	}
	return fmt.Sprintf("is at work (%s)", r.State)
}

// workable refuses work in a workspace in which a snapshot is being restored, or was not to
// its end.
func (p *Plane) workable(ctx context.Context, q querier, workspace string) error {
	if dir := p.restoring.Load(); dir != nil && overlap(*dir, workspace) {
		return fail(http.StatusConflict, "a snapshot is being restored in %s: try again when that is done", *dir)
	}
	torn, err := readRuns(ctx, q, whereTorn)
	for _, r := range torn {
		if overlap(r.Workspace, workspace) {
			return fail(http.StatusConflict, "run %s, in %s: %s", r.RunID, r.Workspace, r.Torn)
		}
	}
	return err
}

// workspaceOwner is who files in a workspace are to belong to; -1 where only we can be.
func workspaceOwner(root *os.Root) (uid, gid int) {
	info, err := root.Stat(".")
	if err != nil {
		return -1, -1
	}
	uid, gid, ok := ownerOf(info)
	if !ok || uid == os.Geteuid() && gid == os.Getegid() {
		return -1, -1
	}
	return uid, gid
}

func (p *Plane) openSnapshot(s snapshot) (*os.File, error) {
	if !filepath.IsLocal(s.Filename) || filepath.Base(s.Filename) != s.Filename {
		return nil, fail(http.StatusNotFound, "snapshot %d has no file", s.ID)
	}
	f, err := os.Open(filepath.Join(p.snapshotDir(), s.Filename))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fail(http.StatusNotFound, "the file of snapshot %d is gone: %s", s.ID, s.Filename)
	}
	return f, err
}

// verify reads the whole file before anything is done with it, and goes back to its start.
func verify(ctx context.Context, f *os.File, s snapshot) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, reader{ctx, f}); err != nil {
		return fmt.Errorf("reading snapshot %d: %w", s.ID, err)
	}
	if hex.EncodeToString(hash.Sum(nil)) != s.sum {
		return fail(http.StatusConflict, "the file of snapshot %d is not what it was: nothing was restored", s.ID)
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

func (p *Plane) deleteSnapshot(w http.ResponseWriter, r *http.Request) error {
	s, err := p.snapshot(r)
	if err != nil {
		return err
	}
	done, err := p.store()
	if err != nil {
		return err
	}
	defer done()
	if err := os.Remove(filepath.Join(p.snapshotDir(), filepath.Base(s.Filename))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing snapshot %d: %w", s.ID, err)
	}
	err = p.db.write(r.Context(), func(t *tx) error {
		_, err := t.exec("DELETE FROM snapshots WHERE id=?", s.ID)
		return err
	})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

func (p *Plane) downloadSnapshot(w http.ResponseWriter, r *http.Request) error {
	s, err := p.snapshot(r)
	if err != nil {
		return err
	}
	f, err := p.openSnapshot(s)
	if err != nil {
		return err
	}
	defer f.Close()
	attachment(w, s.Filename, "application/gzip", s.Size)
	_, _ = io.Copy(w, f) // a client that goes away is no error
	return nil
}

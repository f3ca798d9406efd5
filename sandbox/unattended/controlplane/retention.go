package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Retention works in small steps, so that events are taken in between.
const (
	retainEvery = 10 * time.Minute
	retainStep  = 500            // events of a change
	freePages   = 256            // pages given back to the file system in a change
	keepTokens  = 24 * time.Hour // of a run that has ended: its keeper may still have something to tell
)

// retention removes what is too old or too much.
func (p *Plane) retention() {
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		if err := errors.Join(p.retain(p.ctx), p.forgetSpent(p.ctx)); err != nil && p.ctx.Err() == nil {
			p.log.Warn("old events could not be removed", "error", err)
		}
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// retain removes the oldest events until the rest is young enough and fits, then what was left of the runs they were of.
func (p *Plane) retain(ctx context.Context) error {
	for ctx.Err() == nil {
		removed, err := p.retainStep(ctx)
		if err != nil {
			return err
		}
		if removed == 0 {
			break
		}
		p.counts.pruned.Add(removed)
	}
	return p.retainRuns(ctx)
}

// retainStep removes some events; 0 says that there is nothing to remove any more.
func (p *Plane) retainStep(ctx context.Context) (removed int64, err error) {
	before := int64(-1 << 62)
	if p.o.KeepEvents > 0 {
		before = p.o.Now().Add(-p.o.KeepEvents).UnixMilli()
	}
	if size, err := p.db.size(ctx); err != nil {
		return 0, err
	} else if p.o.KeepBytes > 0 && size > p.o.KeepBytes {
		before = p.now() + 1
	}
	err = p.db.write(ctx, func(t *tx) error {
		// In the order of ids, so that what is gone has one end that a live client can be told.
		var through int64
		err := t.QueryRowContext(t.ctx, "SELECT COALESCE(MAX(id), 0) FROM (SELECT id, received FROM events ORDER BY id LIMIT ?) WHERE received < ?",
			retainStep, before).Scan(&through)
		if err != nil || through == 0 {
			return err
		}
		res, err := t.exec("DELETE FROM events WHERE id <= ?", through)
		if err != nil {
			return err
		}
		if removed, err = res.RowsAffected(); err != nil {
			return err
		}
		_, err = t.exec("INSERT INTO facts (name, value) VALUES ('pruned', ?1) ON CONFLICT (name) DO UPDATE SET value=?1", through)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("removing old events: %w", err)
	}
	return removed, p.db.shrink(ctx)
}

// retainRuns removes the runs that ended before all that is kept, with their iterations,
// vitals, prompts and mailboxes.
func (p *Plane) retainRuns(ctx context.Context) error {
	if p.o.KeepEvents < 0 {
		return nil
	}
	before := p.o.Now().Add(-max(p.o.KeepEvents, keepTokens)).UnixMilli()
	err := p.db.write(ctx, func(t *tx) error {
		if _, err := t.exec("DELETE FROM vitals WHERE id IN (SELECT id FROM vitals WHERE ts < ? LIMIT 5000)", before); err != nil {
			return err
		}
		_, err := t.exec(`DELETE FROM runs WHERE key IN (SELECT key FROM runs WHERE stopped < ? AND desired = 'stopped' AND torn = ''
			AND NOT EXISTS (SELECT 1 FROM events WHERE run = runs.key) LIMIT 20)`, before)
		return err
	})
	if err != nil {
		return fmt.Errorf("removing old runs: %w", err)
	}
	return nil
}

// size is how many bytes the database holds, without what is free in its file.
func (d *database) size(ctx context.Context) (int64, error) {
	var pages, free, size int64
	err := errors.Join(d.read.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages),
		d.read.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free),
		d.read.QueryRowContext(ctx, "PRAGMA page_size").Scan(&size))
	if err != nil {
		return 0, fmt.Errorf("reading the size of the database: %w", err)
	}
	return (pages - free) * size, nil
}

// shrink gives some free pages back.
func (d *database) shrink(ctx context.Context) error {
	return d.write(ctx, func(t *tx) error {
		rows, err := t.QueryContext(t.ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", freePages))
		if err != nil {
			return fmt.Errorf("giving back free pages: %w", err)
		}
		for rows.Next() { // each row is a page
		}
		return errors.Join(rows.Err(), rows.Close())
	})
}

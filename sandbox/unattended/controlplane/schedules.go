package controlplane

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"gander.dev/gander/sandbox/outbound/notify"
)

// A Schedule starts runs at times, as clients see it. Times are ISO 8601 in UTC.
type Schedule struct {
	ID string `json:"id"`
	timetable
	Start startRequest `json:"start"`
	// When is the timetable in words.
	When      string  `json:"when"`
	CreatedAt string  `json:"createdAt"`
	NextAt    *string `json:"nextAt"` // nil when no run begins any more
	LastAt    *string `json:"lastAt"` // the last time that was due
	LastRun   string  `json:"lastRun"`
	// Said tells what was out of the ordinary at the last time.
	Said string `json:"said"`

	next  int64
	begun bool
}

const (
	maxSchedules = 100
	// lookAgain bounds how long the clock is not looked at: it may be set, and a machine may sleep.
	lookAgain = 15 * time.Second
	// late bounds how far behind its time a run begins without a word about it.
	late = 2 * time.Minute
	// keepSpent bounds how long a schedule without further times is shown.
	keepSpent = 7 * 24 * time.Hour
)

const scheduleColumns = "id, timetable, start, created, next, fired, begun, run, said"

func readSchedules(ctx context.Context, q querier, where string, args ...any) ([]*Schedule, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+scheduleColumns+" FROM schedules "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading schedules: %w", err)
	}
	defer rows.Close()
	all := []*Schedule{}
	for rows.Next() {
		var s Schedule
		var table, start string
		var created int64
		var next, fired *int64
		if err := rows.Scan(&s.ID, &table, &start, &created, &next, &fired, &s.begun, &s.LastRun, &s.Said); err != nil {
			return nil, fmt.Errorf("reading a schedule: %w", err)
		}
		if err := errors.Join(json.Unmarshal([]byte(table), &s.timetable), json.Unmarshal([]byte(start), &s.Start)); err != nil {
			return nil, fmt.Errorf("reading schedule %s: %w", s.ID, err)
		}
		s.When, s.CreatedAt, s.NextAt, s.LastAt = s.timetable.String(), iso(created), isoOrNil(next), isoOrNil(fired)
		if next != nil {
			s.next = *next
		}
		all = append(all, &s)
	}
	return all, rows.Err()
}

func (p *Plane) schedules(w http.ResponseWriter, r *http.Request) error {
	all, err := readSchedules(r.Context(), p.db.read, "ORDER BY next IS NULL, next, created")
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"schedules": all})
	return nil
}

// addSchedule keeps a schedule. What can be known to be wrong with its runs is refused now.
func (p *Plane) addSchedule(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		startRequest
		timetable
	}
	if err := readBody(w, r, &body, false); err != nil {
		return err
	}
	first, err := body.first(p.o.Now())
	if err != nil {
		return err
	}
	if err := p.checkStart(r.Context(), &body.startRequest); err != nil {
		return err
	}
	table, err := json.Marshal(body.timetable)
	if err != nil {
		return err
	}
	start, err := json.Marshal(body.startRequest)
	if err != nil {
		return err
	}
	id := uuid.Must(uuid.NewV7()).String()
	err = p.db.write(r.Context(), func(t *tx) error {
		var n int
		if err := t.QueryRowContext(t.ctx, "SELECT COUNT(*) FROM schedules").Scan(&n); err != nil {
			return err
		}
		if n >= maxSchedules {
			return fail(http.StatusConflict, "there are %d schedules already, as many as there may be: remove one first", n)
		}
		_, err := t.exec("INSERT INTO schedules (id, timetable, start, created, next) VALUES (?,?,?,?,?)", id, string(table), string(start), p.now(), first.UnixMilli())
		return err
	})
	if err != nil {
		return err
	}
	p.wake(p.scheduled)
	all, err := readSchedules(r.Context(), p.db.read, "WHERE id=?", id)
	if err != nil {
		return err
	}
	if len(all) == 0 { // removed already
		return noSchedule(id)
	}
	p.log.Info("a schedule was made", "schedule", id, "when", all[0].When, "agent", all[0].Start.Agent)
	answer(w, http.StatusOK, all[0])
	return nil
}

// deleteSchedule removes a schedule; its runs go on.
func (p *Plane) deleteSchedule(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	err := p.db.write(r.Context(), func(t *tx) error {
		res, err := t.exec("DELETE FROM schedules WHERE id=?", id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, noSchedule(id))
		}
		return nil
	})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

func noSchedule(id string) error { return fail(http.StatusNotFound, "there is no schedule %q", id) }

// timekeeper starts the runs of schedules at their times.
func (p *Plane) timekeeper() {
	select { // runs of an earlier process are taken up first, and hold their workspaces
	case <-p.ctx.Done():
		return
	case <-p.adopted:
	}
	p.lostStarts(p.ctx)
	for {
		wait := lookAgain
		next, err := p.startDue(p.ctx)
		switch {
		case err != nil && p.ctx.Err() == nil:
			p.log.Warn("the schedules could not be read", "error", err)
		case !next.IsZero():
			wait = min(wait, max(0, next.Sub(p.o.Now())))
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.ctx.Done():
		case <-p.scheduled:
		case <-timer.C:
		}
		timer.Stop()
		if p.ctx.Err() != nil {
			return
		}
	}
}

// lostStarts says of runs that an earlier process was about to start that they were not: they may
// have begun, so nothing starts them again.
func (p *Plane) lostStarts(ctx context.Context) {
	all, err := readSchedules(ctx, p.db.read, "WHERE begun=1")
	for _, s := range all {
		err = errors.Join(err, p.fired(ctx, s, nil, "gander serve ended while it started this run; it is not started again"))
	}
	if err != nil && ctx.Err() == nil {
		p.log.Warn("a schedule could not be kept", "error", err)
	}
}

// startDue starts the runs whose time has come, each once, and returns the next time. A time that
// was missed is made up for once, however many were.
func (p *Plane) startDue(ctx context.Context) (next time.Time, err error) {
	now := p.o.Now()
	due, err := readSchedules(ctx, p.db.read, "WHERE next<=? ORDER BY next, created", now.UnixMilli())
	if err != nil {
		return next, err
	}
	for _, s := range due {
		if err := p.startScheduled(ctx, s, now); err != nil && ctx.Err() == nil {
			p.log.Warn("a schedule could not be kept", "schedule", s.ID, "error", err)
		}
	}
	var at sql.NullInt64
	if err := p.db.read.QueryRowContext(ctx, "SELECT MIN(next) FROM schedules").Scan(&at); err != nil || !at.Valid {
		return next, err
	}
	return time.UnixMilli(at.Int64), nil
}

// startScheduled notes first that a time is over, so that it never comes twice, and starts its run.
func (p *Plane) startScheduled(ctx context.Context, s *Schedule, now time.Time) error {
	due := time.UnixMilli(s.next).In(now.Location())
	next, err := s.timetable.next(due, now)
	if err != nil {
		return err
	}
	var then *int64
	if !next.IsZero() {
		then = new(next.UnixMilli())
	}
	gone := false
	err = p.db.write(ctx, func(t *tx) error {
		res, err := t.exec("UPDATE schedules SET next=?, fired=?, begun=1, run='', said='' WHERE id=? AND next=?", then, s.next, s.ID, s.next)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		gone = n == 0
		return err
	})
	if err != nil || gone {
		return err
	}
	said := ""
	if now.Sub(due) > late {
		said = fmt.Sprintf("%s was missed, because gander serve did not run; one run began at %s instead", due.Format(time.DateTime), now.Format(time.DateTime))
		if n := s.timetable.missed(due, now); n > 1 {
			said = fmt.Sprintf("%d times from %s on were missed, because gander serve did not run; one run began at %s instead", n, due.Format(time.DateTime), now.Format(time.DateTime))
		}
	}
	start := s.Start
	run, err := p.begin(ctx, &start)
	if err != nil {
		why := "something went wrong inside; the log of gander serve says what"
		if se := statusOf(err); se != nil {
			why = se.text
		} else {
			p.log.Error("a scheduled run did not start", "schedule", s.ID, "error", err)
		}
		said = fmt.Sprintf("the run of %s was not started: %s", due.Format(time.DateTime), why)
	}
	return p.fired(context.WithoutCancel(ctx), s, run, said)
}

// fired keeps what came of a time, and tells the live clients what is out of the ordinary.
func (p *Plane) fired(ctx context.Context, s *Schedule, run *Run, said string) error {
	id := ""
	if run != nil {
		id = run.RunID
	}
	if said != "" {
		p.log.Warn("a schedule", "schedule", s.ID, "when", s.When, "run", id, "what", said)
	}
	return p.db.write(ctx, func(t *tx) error {
		t.then(func() {
			if said != "" {
				state := "a scheduled run began late"
				if run == nil {
					state = "a scheduled run did not begin"
				}
				p.notify(notify.Note{Kind: "schedule", State: state, Agent: s.Start.Agent, Project: filepath.Base(s.Start.Workspace), Dir: s.Start.Workspace, Run: id, Words: said, Link: p.linkTo(id)})
			}
			p.hub.tell(id, "schedule", map[string]string{"scheduleId": s.ID, "agentType": s.Start.Agent, "when": s.When, "said": said}, p.now())
		})
		_, err := t.exec("UPDATE schedules SET begun=0, run=?, said=? WHERE id=?", id, said, s.ID)
		return err
	})
}

// forgetSpent removes schedules that had their last time long ago.
func (p *Plane) forgetSpent(ctx context.Context) error {
	return p.db.write(ctx, func(t *tx) error {
		_, err := t.exec("DELETE FROM schedules WHERE next IS NULL AND begun=0 AND fired<?", p.o.Now().Add(-keepSpent).UnixMilli())
		return err
	})
}

package controlplane

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"gander.dev/gander/sandbox/telemetry"
)

// A stored event is one as it is in the database.
type stored struct {
	id    int64
	run   string
	event telemetry.Event
	row   int64  // of its iteration; 0 outside of any
	body  []byte // the event as JSON
}

// gapError says that events are missing before those that came: nothing was taken.
type gapError struct{ lastSeq int64 }

func (e *gapError) Error() string {
	return fmt.Sprintf("the last event here is number %d: send from %d on", e.lastSeq, e.lastSeq+1)
}

// An ingest takes events of one run within one change. Those without a number get the
// next one, so that the numbers of a loop may lie below those here: Run.added says by how much.
type ingest struct {
	tx     *tx
	run    *Run
	now    int64
	ids    map[int64]int64 // of iterations, by their number
	counts map[int64]*struct{ actions, errors int }

	before  telemetry.State // of the run
	taken   []stored
	changed bool // what clients see of the run
	ended   bool // an iteration
}

func newIngest(t *tx, r *Run, now int64) *ingest {
	return &ingest{tx: t, run: r, now: now, before: r.State, ids: map[int64]int64{}, counts: map[int64]*struct{ actions, errors int }{}}
}

// take takes what is new of a batch in its order. Events that are known are skipped.
func (in *ingest) take(events []telemetry.Event) error {
	for i := range events {
		e := &events[i]
		switch known := in.run.LastSeq - in.run.added; {
		case e.Seq == 0:
			switch closed, err := in.closed(e); {
			case err != nil:
				return err
			case closed:
				continue
			}
			in.run.added++
		case e.Seq <= known:
			continue
		case e.Seq > known+1:
			return &gapError{known}
		}
		e.Seq = in.run.LastSeq + 1
		if err := in.one(e); err != nil {
			return fmt.Errorf("taking event %d of run %s: %w", e.Seq, in.run.RunID, err)
		}
	}
	return in.finish()
}

// closed reports whether an event is the end of an iteration that its loop has ended.
func (in *ingest) closed(e *telemetry.Event) (is bool, err error) {
	if e.Type != telemetry.IterationEnd {
		return false, nil
	}
	err = in.tx.QueryRowContext(in.tx.ctx, "SELECT COUNT(*) FROM iterations WHERE run=? AND number=? AND ended IS NOT NULL AND outcome!=?",
		in.run.key, e.Iteration, string(telemetry.Interrupted)).Scan(&is)
	return is, err
}

// one takes the event that follows the last one.
func (in *ingest) one(e *telemetry.Event) error {
	in.settle(e)
	iteration, err := in.iteration(e)
	if err != nil {
		return err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	res, err := in.tx.exec("INSERT INTO events (run, seq, iteration, type, ts, received, body) VALUES (?,?,?,?,?,?,?)",
		in.run.key, e.Seq, iteration, string(e.Type), e.Time, in.now, string(body))
	if err != nil {
		return err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return err
	}
	in.taken = append(in.taken, stored{id: id, run: in.run.RunID, row: rowID(iteration), event: *e, body: body})
	in.run.LastSeq = e.Seq
	return in.effect(e, iteration)
}

// settle makes an event what it should be: caps that hold, a time that can be, and its
// own run, whatever it says.
func (in *ingest) settle(e *telemetry.Event) {
	e.Cap()
	e.RunID = in.run.RunID
	if e.Time <= 0 || e.Time > in.now {
		e.Time = in.now // a clock that is ahead of ours would order wrongly
	}
	if in.run.started == nil {
		in.run.started, in.changed = new(e.Time), true
	}
}

// iteration is the row of an event's iteration, nil outside of any. The first event of
// a new one ends one that is open: its loop died in it, or it would have been ended.
func (in *ingest) iteration(e *telemetry.Event) (*int64, error) {
	if e.Iteration == 0 {
		return nil, nil
	}
	if id, ok := in.ids[e.Iteration]; ok {
		return &id, nil
	}
	var id int64
	err := in.tx.QueryRowContext(in.tx.ctx, "SELECT id FROM iterations WHERE run=? AND number=?", in.run.key, e.Iteration).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		id, err = in.newIteration(e)
	}
	if err != nil {
		return nil, err
	}
	in.ids[e.Iteration] = id
	return &id, nil
}

func (in *ingest) newIteration(e *telemetry.Event) (int64, error) {
	if e.Iteration > in.run.Iteration {
		if err := closeIterations(in.tx, in.run.key, e.Time); err != nil {
			return 0, err
		}
		in.run.Iteration, in.changed, in.ended = e.Iteration, true, true
	}
	res, err := in.tx.exec("INSERT INTO iterations (run, number, started) VALUES (?,?,?)", in.run.key, e.Iteration, e.Time)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// effect is what an event changes besides being there.
func (in *ingest) effect(e *telemetry.Event, iteration *int64) error {
	switch e.Type {
	case telemetry.ToolUse:
		in.count(iteration, 1, 0)
	case telemetry.Error:
		in.count(iteration, 0, 1)
	case telemetry.IterationEnd:
		return in.end(e, iteration)
	case telemetry.StateChange:
		return in.state(e)
	}
	return nil
}

func (in *ingest) count(iteration *int64, actions, errs int) {
	if iteration == nil {
		return
	}
	c := in.counts[*iteration]
	if c == nil {
		c = &struct{ actions, errors int }{}
		in.counts[*iteration] = c
	}
	c.actions += actions
	c.errors += errs
}

func (in *ingest) end(e *telemetry.Event, iteration *int64) error {
	if iteration == nil {
		return nil
	}
	delete(in.counts, *iteration) // the loop's own counts hold
	var u telemetry.Usage
	if e.Usage != nil {
		u = *e.Usage
	}
	_, err := in.tx.exec(`UPDATE iterations SET ended=MAX(?, started), summary=?, outcome=?, actions=?, errors=?,
		input=input+?, output=output+?, total=total+?, cost=cost+? WHERE id=?`,
		e.Time, e.Summary, e.Status, e.Actions, e.Errors, u.Input, u.Output, u.Total, u.Cost, *iteration)
	if err != nil {
		return err
	}
	in.run.Usage.Add(u)
	in.run.Using = telemetry.Usage{}
	in.run.LastOutcome = telemetry.Outcome(e.Status)
	in.changed, in.ended = true, true
	if e.Vitals == nil {
		return nil
	}
	in.run.Vitals = e.Vitals
	return insertVitals(in.tx, in.run.key, e.Time, *e.Vitals)
}

func insertVitals(t *tx, key, at int64, v telemetry.Vitals) error {
	_, err := t.exec("INSERT INTO vitals (run, ts, cpu, memory, disk) VALUES (?,?,?,?,?)", key, at, v.CPU, v.Memory, v.Disk)
	return err
}

// state follows what the loop says it does. A run that was stopped stays so, whatever
// was still on its way; one that is to go on is live again when its loop says so.
func (in *ingest) state(e *telemetry.Event) error {
	r := in.run
	if !r.live() && r.Desired == DesiredStopped && !terminal(e.State) {
		return nil
	}
	in.changed = true
	r.State, r.Reason, r.Until = e.State, e.Reason, e.Until
	if !terminal(e.State) {
		r.stopped = nil // it was taken for lost: its workspace was kept for it
		return nil
	}
	if e.State != telemetry.Stopped || r.Driver != External { // that one says nothing of what is wanted: its machine may go down
		r.Desired = DesiredStopped
	}
	r.Until = 0
	if r.stopped == nil {
		r.stopped = new(e.Time)
	}
	in.ended = true
	return closeIterations(in.tx, r.key, e.Time)
}

// finish writes what has been added up.
func (in *ingest) finish() error {
	if len(in.taken) == 0 {
		return nil
	}
	for id, c := range in.counts {
		if _, err := in.tx.exec("UPDATE iterations SET actions=actions+?, errors=errors+? WHERE id=?", c.actions, c.errors, id); err != nil {
			return err
		}
	}
	return updateRun(in.tx, in.run)
}

func rowID(id *int64) int64 {
	if id == nil {
		return 0
	}
	return *id
}

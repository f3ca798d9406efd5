package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"

	"gander.dev/gander/sandbox/telemetry"
)

// A batch is the body of a telemetry request. A loop of the succeeded system sends
// neither runId nor seq. The iterationId holds for all events of the batch that name none.
type batch struct {
	RunID     string             `json:"runId"`
	Iteration int64              `json:"iterationId"`
	Events    *[]telemetry.Event `json:"events"`
}

var runIDRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// validRunID reports whether a loop that was started elsewhere may give itself the id.
func validRunID(id string) bool { return len(id) >= 8 && len(id) <= 64 && runIDRule.MatchString(id) }

const (
	maxNumber  = 1 << 53 // of seq and iteration: what JavaScript can count
	maxType    = 64      // bytes of the name of a type
	maxMeaning = 4096    // bytes of the other words of an event
)

func (p *Plane) takeEvents(w http.ResponseWriter, r *http.Request) error {
	begun := time.Now()
	var b batch
	if err := readBody(w, r, &b, false); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	run, err := p.takeBatch(r, &b)
	if err != nil {
		return err
	}
	p.counts.took(time.Since(begun))
	body := map[string]any{"received": len(*b.Events)}
	if run != nil {
		body["lastSeq"] = run.LastSeq - run.added // as the loop counts
	}
	answer(w, http.StatusOK, body)
	return nil
}

// check checks a batch as far as it can be without the database.
func (b *batch) check() error {
	switch {
	case b.Events == nil:
		return fail(http.StatusBadRequest, "events is required, a list")
	case len(*b.Events) > maxBatch:
		return fail(http.StatusRequestEntityTooLarge, "%d events at once are more than %d: send fewer at a time", len(*b.Events), maxBatch)
	case b.Iteration < 0 || b.Iteration > maxNumber:
		return fail(http.StatusBadRequest, "iterationId %d is no number of an iteration", b.Iteration)
	case b.RunID != "" && !validRunID(b.RunID):
		return fail(http.StatusBadRequest, "runId %.80q is none", b.RunID)
	}
	events := *b.Events
	for i := range events {
		if events[i].Iteration == 0 {
			events[i].Iteration = b.Iteration
		}
		if err := checkEvent(&events[i]); err != nil {
			return fail(http.StatusUnprocessableEntity, "event %d of the batch: %v", i, err)
		}
		if events[i].Seq != 0 && i > 0 && events[i].Seq != events[i-1].Seq+1 || (events[i].Seq == 0) != (events[0].Seq == 0) {
			return fail(http.StatusUnprocessableEntity, "event %d of the batch has seq %d, which does not follow the one before", i, events[i].Seq)
		}
	}
	if len(events) > 0 && events[0].Seq == 0 && b.Iteration == 0 && events[0].Iteration == 0 {
		return fail(http.StatusBadRequest, "iterationId is required, a number from 1")
	}
	return nil
}

func checkEvent(e *telemetry.Event) error {
	switch {
	case e.Type == "" || len(e.Type) > maxType:
		return fmt.Errorf("its type must have 1 to %d bytes", maxType)
	case e.Seq < 0 || e.Seq > maxNumber || e.Iteration < 0 || e.Iteration > maxNumber:
		return errors.New("its numbers are out of range")
	case e.Actions < 0 || e.Errors < 0 || e.Bytes < 0 || e.Until < 0:
		return errors.New("a count is below 0")
	case max(len(e.Agent), len(e.Tool), len(e.ToolCallID), len(e.Status), len(e.State), len(e.Reason)) > maxMeaning:
		return fmt.Errorf("agent, tool, toolCallId, status, state and reason have at most %d bytes each", maxMeaning)
	case e.Type == telemetry.StateChange && e.State == "":
		return errors.New("it is a state and names none")
	case e.Type == telemetry.IterationEnd && e.Seq != 0 && e.Iteration == 0:
		return errors.New("it ends an iteration and names none")
	}
	if u := e.Usage; u != nil && (min(u.Input, u.Output, u.Total) < 0 || max(u.Input, u.Output, u.Total) > maxNumber || u.Cost < 0) {
		return errors.New("its usage is out of range")
	}
	if v := e.Vitals; v != nil && min(v.CPU, v.Memory, v.Disk) < 0 {
		return errors.New("its vitals are below 0")
	}
	return nil
}

// takeBatch keeps what is new of a batch, whole or not at all, and tells the live
// clients. The run is nil for an empty batch of nobody.
func (p *Plane) takeBatch(r *http.Request, b *batch) (*Run, error) {
	events := *b.Events
	numbered := len(events) > 0 && events[0].Seq != 0
	if len(events) == 0 && b.RunID == "" {
		return nil, nil
	}
	who := callerOf(r)
	if who.kind == sandbox {
		if b.RunID != "" && b.RunID != who.run.RunID {
			return nil, fail(http.StatusForbidden, "this token is of another run")
		}
		b.RunID = who.run.RunID
		if len(events) > 0 && !numbered {
			return nil, fail(http.StatusUnprocessableEntity, "events of run %s need a seq", b.RunID)
		}
	}
	if numbered && b.RunID == "" {
		return nil, fail(http.StatusUnprocessableEntity, "events with a seq need a runId beside them")
	}
	var run *Run
	err := p.db.write(r.Context(), func(t *tx) error {
		var err error
		if run, err = p.runOf(t, b, numbered); err != nil {
			return err
		}
		in := newIngest(t, run, p.now())
		before := run.LastSeq
		if !numbered && b.RunID != "" && len(events) > 0 {
			again, err := repeats(run, b)
			if err != nil || again {
				return err
			}
		}
		if err := in.take(events); err != nil {
			return err
		}
		t.then(func() { p.tellTaken(in, len(events)-int(run.LastSeq-before)) })
		return nil
	})
	if gap, is := errors.AsType[*gapError](err); is {
		p.counts.gaps.Add(1)
		return nil, gap
	}
	return run, err
}

// tellTaken tells those who wait for events.
func (p *Plane) tellTaken(in *ingest, known int) {
	p.counts.events.Add(int64(len(in.taken)))
	p.counts.known.Add(int64(known))
	p.hub.events(in.taken)
	if in.changed {
		p.hub.tell(in.run.RunID, "run", in.run, p.now())
		p.notifyRun(in.run, in.before)
	}
	if in.ended {
		p.wake(p.summarise)
	}
	if len(in.taken) > 0 {
		p.wake(p.transmit)
	}
}

// runOf is the run of a batch. One that is not known is of a loop that was started
// elsewhere: only a person's token lets it be recorded.
func (p *Plane) runOf(t *tx, b *batch, numbered bool) (*Run, error) {
	if b.RunID == "" {
		return p.oldRun(t, b)
	}
	run, err := readRun(t.ctx, t, whereID, b.RunID)
	if err != nil {
		return nil, err
	}
	if run == nil {
		agent := ""
		if len(*b.Events) > 0 {
			agent = (*b.Events)[0].Agent
		}
		run = p.external(b.RunID, agent, false)
		return run, insertRun(t, run, nil)
	}
	if len(*b.Events) > 0 && !numbered && run.Driver != External {
		return nil, fail(http.StatusUnprocessableEntity, "events of run %s need a seq", b.RunID)
	}
	return run, nil
}

func (p *Plane) external(id, agent string, old bool) *Run {
	if agent == "" {
		agent = "unknown"
	}
	return &Run{
		RunID: id, SessionID: uuid.Must(uuid.NewV7()).String(), Agent: agent, Driver: External, State: telemetry.Running,
		Desired: DesiredRunning, created: p.now(), old: old,
	}
}

// oldRun is the run of a loop of the succeeded system: the one that goes on, or a new
// one when it begins to count anew.
func (p *Plane) oldRun(t *tx, b *batch) (*Run, error) {
	run, err := readRun(t.ctx, t, whereOldLoop)
	if err != nil {
		return nil, err
	}
	if run != nil && begins(*b.Events) && b.Iteration <= run.Iteration {
		if err := p.endRun(t, run, telemetry.Stopped, "its loop began anew"); err != nil {
			return nil, err
		}
		run.Desired = DesiredStopped
		if err := updateRun(t, run); err != nil {
			return nil, err
		}
		run = nil
	}
	if run == nil {
		run = p.external(uuid.Must(uuid.NewV7()).String(), "", true)
		return run, insertRun(t, run, nil)
	}
	return run, nil
}

func begins(events []telemetry.Event) bool {
	return len(events) > 0 && events[0].Type == telemetry.IterationStart
}

// repeats reports whether a batch without numbers is the one that was taken last: its
// loop has not heard of that. It notes the batch.
func repeats(run *Run, b *batch) (bool, error) {
	raw, err := json.Marshal(b)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(raw)
	again := bytes.Equal(run.lastBatch, sum[:])
	run.lastBatch = sum[:]
	return again, nil
}

// takeSummary takes the end of an iteration as loops of the succeeded system tell it, and
// keeps it as the event that others send.
func (p *Plane) takeSummary(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		RunID     string            `json:"runId"`
		Iteration int64             `json:"iterationId"`
		Summary   *string           `json:"summary"`
		Actions   int               `json:"actionCount"`
		Errors    int               `json:"errorCount"`
		Vitals    *telemetry.Vitals `json:"vitals"`
	}
	if err := readBody(w, r, &body, false); err != nil {
		return err
	}
	if body.Iteration < 1 || body.Summary == nil {
		return fail(http.StatusBadRequest, "iterationId, a number from 1, and summary are required")
	}
	outcome := telemetry.OK
	if body.Errors > 0 {
		outcome = telemetry.AgentError
	}
	b := batch{RunID: body.RunID, Iteration: body.Iteration, Events: &[]telemetry.Event{{
		Type: telemetry.IterationEnd, Iteration: body.Iteration, Summary: *body.Summary, Actions: body.Actions, Errors: body.Errors,
		Vitals: body.Vitals, Status: string(outcome),
	}}}
	if err := b.check(); err != nil {
		return err
	}
	if _, err := p.takeBatch(r, &b); err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

// takeGrowing shows the live clients a part of a message that is not complete yet. Nothing of
// it is kept: the event with the whole message follows.
func (p *Plane) takeGrowing(w http.ResponseWriter, r *http.Request) error {
	var g telemetry.Growth
	if err := readBody(w, r, &g, false); err != nil {
		return err
	}
	if !g.Follows(g.Offset) || g.Iteration < 1 || g.Iteration > maxNumber {
		return fail(http.StatusUnprocessableEntity, "this is no part of a message: type text or thought, iterationId, offset and content are required")
	}
	run, err := p.chosen(r)
	if err == nil && run == nil {
		err = fail(http.StatusNotFound, "there is no run")
	}
	if err != nil {
		return err
	}
	p.hub.tell(run.RunID, "growing", g, p.now())
	answer(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

// runKey is the key of the run that a query names: 0 for all. session=current is the
// newest, as the succeeded system has it.
func (p *Plane) runKey(r *http.Request) (int64, error) {
	q := r.URL.Query()
	if q.Get("run") == "" && q.Get("session") != "current" {
		return 0, nil
	}
	run, err := p.chosen(r)
	if err != nil || run == nil {
		return -1, err // no run has it
	}
	return run.key, nil
}

func (p *Plane) iterations(w http.ResponseWriter, r *http.Request) error {
	limit, offset, err := page(r, 20)
	if err != nil {
		return err
	}
	key, err := p.runKey(r)
	if err != nil {
		return err
	}
	where, args := iterationsOfAll, []any{limit, offset}
	if key != 0 {
		where, args = iterationsOfRun, []any{key, limit, offset}
	}
	rows, err := readIterations(r.Context(), p.db.read, where, args...)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"iterations": rows})
	return nil
}

// iteration answers one iteration with its events, the first 1000 after= a seq; more says
// that there are others.
func (p *Plane) iteration(w http.ResponseWriter, r *http.Request) error {
	after, err := number(r, "after", 0, 0, maxNumber)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", maxPage, 1, maxPage)
	if err != nil {
		return err
	}
	rows, err := readIterations(r.Context(), p.db.read, iterationByID, r.PathValue("id"))
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fail(http.StatusNotFound, "not found")
	}
	events, err := p.eventRows(r.Context(), eventsOfIteration, rows[0].ID, after, limit+1)
	if err != nil {
		return err
	}
	more := int64(len(events)) > limit
	if more {
		events = events[:limit]
	}
	answer(w, http.StatusOK, map[string]any{"iteration": rows[0], "events": events, "more": more})
	return nil
}

func (p *Plane) eventRows(ctx context.Context, where string, args ...any) ([]eventRow, error) {
	events, err := readEvents(ctx, p.db.read, where, args...)
	if err != nil {
		return nil, err
	}
	if err := decode(events); err != nil {
		return nil, err
	}
	rows := []eventRow{}
	for _, s := range events {
		rows = append(rows, rowOf(s))
	}
	return rows, nil
}

func (p *Plane) vitals(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit", 100, 1, maxPage)
	if err != nil {
		return err
	}
	key, err := p.runKey(r)
	if err != nil {
		return err
	}
	rows, err := readVitals(r.Context(), p.db.read, key, int(limit))
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"vitals": rows})
	return nil
}

// recentEvents answers the newest events of a run as live messages, oldest first.
func (p *Plane) recentEvents(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit", 200, 1, maxPage)
	if err != nil {
		return err
	}
	run, err := p.chosen(r)
	if err != nil {
		return err
	}
	messages := []jsonText{}
	if run != nil {
		events, err := readEvents(r.Context(), p.db.read, newestOfRun, run.key, limit)
		if err != nil {
			return err
		}
		for i := len(events) - 1; i >= 0; i-- {
			messages = append(messages, jsonText(eventMessage(&events[i]).text))
		}
	}
	answer(w, http.StatusOK, map[string]any{"events": messages})
	return nil
}

// events answers the events of a run after= a seq, or of all runs since= an id, in order.
func (p *Plane) events(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit", 500, 1, maxPage)
	if err != nil {
		return err
	}
	after, err := number(r, "after", 0, 0, maxNumber)
	if err != nil {
		return err
	}
	since, err := number(r, "since", 0, 0, maxNumber)
	if err != nil {
		return err
	}
	where, args, last := eventsSince, []any{since, limit}, p.hub.newest()
	if r.URL.Query().Get("run") != "" {
		run, err := p.chosen(r)
		if err != nil {
			return err
		}
		where, args, last = eventsOfRun, []any{run.key, after, limit}, run.LastSeq
	} else if r.URL.Query().Get("after") != "" {
		return fail(http.StatusBadRequest, "after is a number within a run: name it with run=, or use since")
	}
	found, err := readEvents(r.Context(), p.db.read, where, args...)
	if err != nil {
		return err
	}
	events := []jsonText{}
	for i := range found {
		events = append(events, withID(&found[i]))
	}
	answer(w, http.StatusOK, map[string]any{"events": events, "lastSeq": last})
	return nil
}

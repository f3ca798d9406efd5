package controlplane

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"gander.dev/gander/sandbox/telemetry"
)

// Which events, for readEvents.
const (
	eventsOfRun       = "WHERE e.run = ? AND e.seq > ? ORDER BY e.seq LIMIT ?"
	eventsOfRunUpTo   = "WHERE e.run = ? AND e.seq > ? AND e.id <= ? ORDER BY e.seq LIMIT ?"
	eventsSince       = "WHERE e.id > ? ORDER BY e.id LIMIT ?"
	eventsSinceUpTo   = "WHERE e.id > ? AND e.id <= ? ORDER BY e.id LIMIT ?"
	eventsOfIteration = "WHERE e.iteration = ? AND e.seq > ? ORDER BY e.id LIMIT ?"
	newestOfRun       = "WHERE e.run = ? ORDER BY e.seq DESC LIMIT ?"
)

// readEvents reads events, body and number, without looking into them.
func readEvents(ctx context.Context, q querier, where string, args ...any) ([]stored, error) {
	rows, err := q.QueryContext(ctx, "SELECT e.id, r.id, e.seq, e.iteration, e.type, e.ts, e.body FROM events e JOIN runs r ON r.key = e.run "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	defer rows.Close()
	var out []stored
	for rows.Next() {
		var s stored
		var iteration sql.NullInt64
		if err := rows.Scan(&s.id, &s.run, &s.event.Seq, &iteration, &s.event.Type, &s.event.Time, &s.body); err != nil {
			return nil, fmt.Errorf("reading an event: %w", err)
		}
		s.row = iteration.Int64
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return out, nil
}

// decode makes the events whole.
func decode(events []stored) error {
	for i := range events {
		if err := json.Unmarshal(events[i].body, &events[i].event); err != nil {
			return fmt.Errorf("reading event %d: %w", events[i].id, err)
		}
	}
	return nil
}

// An iterationRow is what clients see of an iteration: what the succeeded system had,
// and what has come since.
type iterationRow struct {
	ID          int64             `json:"id"`
	StartTime   string            `json:"start_time"`
	EndTime     *string           `json:"end_time"`
	Summary     *string           `json:"summary"`
	ActionCount int               `json:"action_count"`
	ErrorCount  int               `json:"error_count"`
	SessionID   string            `json:"session_id"`
	Seq         int64             `json:"seq"` // its number in its run
	RunID       string            `json:"run_id"`
	Outcome     telemetry.Outcome `json:"outcome"`
	LLMSummary  *string           `json:"llm_summary"`
	Usage       telemetry.Usage   `json:"usage"`
	StartedAt   string            `json:"started_at"`
	EndedAt     *string           `json:"ended_at"`
}

// Which iterations, for readIterations.
const (
	iterationsOfRun = "WHERE i.run = ? ORDER BY i.number DESC LIMIT ? OFFSET ?"
	iterationsOfAll = "ORDER BY i.id DESC LIMIT ? OFFSET ?"
	iterationByID   = "WHERE i.id = ?"
)

func readIterations(ctx context.Context, q querier, where string, args ...any) ([]iterationRow, error) {
	rows, err := q.QueryContext(ctx, `SELECT i.id, i.started, i.ended, i.summary, i.actions, i.errors, r.session, i.number, r.id, i.outcome,
		i.llm_summary, i.input, i.output, i.total, i.cost FROM iterations i JOIN runs r ON r.key = i.run `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading iterations: %w", err)
	}
	defer rows.Close()
	out := []iterationRow{}
	for rows.Next() {
		var i iterationRow
		var started int64
		var ended *int64
		var summary string
		err := rows.Scan(&i.ID, &started, &ended, &summary, &i.ActionCount, &i.ErrorCount, &i.SessionID, &i.Seq, &i.RunID, &i.Outcome,
			&i.LLMSummary, &i.Usage.Input, &i.Usage.Output, &i.Usage.Total, &i.Usage.Cost)
		if err != nil {
			return nil, fmt.Errorf("reading an iteration: %w", err)
		}
		i.StartTime, i.StartedAt = oldTime(started), iso(started)
		if ended != nil {
			i.EndTime, i.EndedAt = new(oldTime(*ended)), new(iso(*ended))
		}
		if summary != "" {
			i.Summary = &summary
		}
		out = append(out, i)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading iterations: %w", err)
	}
	return out, nil
}

// An eventRow is what clients see of an event beside its iteration.
type eventRow struct {
	ID          int64            `json:"id"`
	IterationID int64            `json:"iteration_id"` // the id of the row, as the succeeded system has it
	Timestamp   string           `json:"timestamp"`
	Type        telemetry.Type   `json:"type"`
	Summary     string           `json:"summary"`
	Content     *string          `json:"content"`
	RunID       string           `json:"run_id"`
	Seq         int64            `json:"seq"`
	Time        int64            `json:"ts"`
	Tool        string           `json:"tool,omitempty"`
	ToolCallID  string           `json:"tool_call_id,omitempty"`
	Status      string           `json:"status,omitempty"`
	Truncated   bool             `json:"truncated,omitempty"`
	Bytes       int              `json:"bytes,omitempty"`
	Usage       *telemetry.Usage `json:"usage,omitempty"`
}

func rowOf(s stored) eventRow {
	e := s.event
	row := eventRow{
		ID: s.id, IterationID: s.row, Timestamp: oldTime(e.Time), Type: e.Type, Summary: e.Summary, RunID: s.run, Seq: e.Seq, Time: e.Time,
		Tool: e.Tool, ToolCallID: e.ToolCallID, Status: e.Status, Truncated: e.Truncated, Bytes: e.Bytes, Usage: e.Usage,
	}
	if e.Content != "" {
		row.Content = &e.Content
	}
	return row
}

// A vitalsRow is what a sandbox used at one moment.
type vitalsRow struct {
	ID        int64   `json:"id"`
	Timestamp string  `json:"timestamp"`
	CPU       float64 `json:"cpu_pct"`
	Memory    float64 `json:"memory_mb"`
	Disk      float64 `json:"disk_mb"`
	RunID     string  `json:"run_id"`
	Time      int64   `json:"ts"`
}

// readVitals reads the newest first; key 0 is all runs.
func readVitals(ctx context.Context, q querier, key int64, limit int) ([]vitalsRow, error) {
	where, args := "ORDER BY v.id DESC LIMIT ?", []any{limit}
	if key != 0 {
		where, args = "WHERE v.run = ? ORDER BY v.id DESC LIMIT ?", []any{key, limit}
	}
	rows, err := q.QueryContext(ctx, "SELECT v.id, v.ts, v.cpu, v.memory, v.disk, r.id FROM vitals v JOIN runs r ON r.key = v.run "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading vitals: %w", err)
	}
	defer rows.Close()
	out := []vitalsRow{}
	for rows.Next() {
		var v vitalsRow
		if err := rows.Scan(&v.ID, &v.Time, &v.CPU, &v.Memory, &v.Disk, &v.RunID); err != nil {
			return nil, fmt.Errorf("reading vitals: %w", err)
		}
		v.Timestamp = oldTime(v.Time)
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading vitals: %w", err)
	}
	return out, nil
}

// newestEventID is the id of the newest event, 0 when there is none.
func newestEventID(ctx context.Context, q querier) (int64, error) {
	var id sql.NullInt64
	if err := q.QueryRowContext(ctx, "SELECT MAX(id) FROM events").Scan(&id); err != nil {
		return 0, fmt.Errorf("reading the newest event: %w", err)
	}
	return id.Int64, nil
}

// seqAt is the number of a run's newest event whose id is not above id, 0 without any.
// Numbers and ids of a run grow together and its numbers have no gaps, so it is found by
// halving; there is no index for it.
func seqAt(ctx context.Context, q querier, run *Run, id int64) (int64, error) {
	first, some, err := firstSeq(ctx, q, run.key)
	if err != nil || !some {
		return 0, err
	}
	n := sort.Search(int(run.LastSeq-first)+1, func(i int) bool {
		var at int64
		if err == nil {
			err = q.QueryRowContext(ctx, "SELECT id FROM events WHERE run = ? AND seq = ?", run.key, first+int64(i)).Scan(&at)
		}
		return at > id
	})
	if err != nil {
		return 0, fmt.Errorf("reading where run %s was: %w", run.RunID, err)
	}
	return first + int64(n) - 1, nil
}

// firstSeq is the number of a run's oldest event that is kept; ok is false without any.
func firstSeq(ctx context.Context, q querier, key int64) (seq int64, ok bool, err error) {
	var n sql.NullInt64
	if err := q.QueryRowContext(ctx, "SELECT MIN(seq) FROM events WHERE run = ?", key).Scan(&n); err != nil {
		return 0, false, fmt.Errorf("reading where a run begins: %w", err)
	}
	return n.Int64, n.Valid, nil
}

// prunedThrough is the highest id of an event that is no longer kept.
func prunedThrough(ctx context.Context, q querier) (int64, error) {
	var id int64
	err := q.QueryRowContext(ctx, "SELECT value FROM facts WHERE name = 'pruned'").Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("reading what was removed: %w", err)
	}
	return id, nil
}

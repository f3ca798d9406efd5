package controlplane

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

const runColumns = `key, id, session, agent, driver, workspace, model, pace, limits, old, state, reason, until, desired,
	container, created, started, stopped, iteration, last_seq, last_outcome, input, output, total, cost, cpu, memory, disk, told, torn,
	added, last_batch, using_now`

// Which runs, for readRuns.
const (
	whereID    = "WHERE id = ?"
	whereToken = "WHERE token = ?"
	whereKey   = "WHERE key = ?"
	whereLive  = "WHERE stopped IS NULL ORDER BY key DESC"
	// The runs that were started here:
	whereOwnLive   = "WHERE driver != 'external' AND stopped IS NULL ORDER BY key DESC"
	whereOwnNewest = "WHERE driver != 'external' ORDER BY key DESC LIMIT 1"
	whereNewest    = "ORDER BY key DESC LIMIT ? OFFSET ?"
	whereOldLoop   = "WHERE old = 1 AND stopped IS NULL ORDER BY key DESC LIMIT 1"
	whereWanted    = "WHERE driver != 'external' AND (stopped IS NULL OR desired != 'stopped') ORDER BY key"
	whereTorn      = "WHERE torn != '' ORDER BY key"
	whereUntold    = "WHERE driver != 'external' AND told < last_seq ORDER BY key"
)

// readRuns reads runs, each with the prompt that holds for it.
func readRuns(ctx context.Context, q querier, where string, args ...any) ([]*Run, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+runColumns+" FROM runs "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading runs: %w", err)
	}
	runs := []*Run{}
	for rows.Next() {
		r, err := scanRun(rows)
		if err != nil {
			rows.Close()
			return nil, err
		}
		runs = append(runs, r)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, fmt.Errorf("reading runs: %w", err)
	}
	for _, r := range runs {
		p, err := readPrompt(ctx, q, r.key)
		if err != nil {
			return nil, err
		}
		r.Prompt = RunPrompt{Own: p.own, Content: p.content}
	}
	return runs, nil
}

// readRun reads one run; nil when there is none.
func readRun(ctx context.Context, q querier, where string, args ...any) (*Run, error) {
	runs, err := readRuns(ctx, q, where, args...)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return runs[0], nil
}

func scanRun(rows *sql.Rows) (*Run, error) {
	var r Run
	var pace int64
	var limits, using string
	var cpu, memory, disk sql.NullFloat64
	err := rows.Scan(&r.key, &r.RunID, &r.SessionID, &r.Agent, &r.Driver, &r.Workspace, &r.Model, &pace, &limits, &r.old,
		&r.State, &r.Reason, &r.Until, &r.Desired, &r.ContainerID, &r.created, &r.started, &r.stopped, &r.Iteration, &r.LastSeq,
		&r.LastOutcome, &r.Usage.Input, &r.Usage.Output, &r.Usage.Total, &r.Usage.Cost, &cpu, &memory, &disk, &r.told, &r.Torn, &r.added, &r.lastBatch, &using)
	if err != nil {
		return nil, fmt.Errorf("reading a run: %w", err)
	}
	if err := json.Unmarshal([]byte(limits), &r.Limits); err != nil {
		return nil, fmt.Errorf("reading the limits of run %s: %w", r.RunID, err)
	}
	if err := json.Unmarshal([]byte(using), &r.Using); err != nil {
		return nil, fmt.Errorf("reading what run %s uses: %w", r.RunID, err)
	}
	r.Pace = time.Duration(pace * int64(time.Millisecond)).Seconds()
	if cpu.Valid {
		r.Vitals = &telemetry.Vitals{CPU: cpu.Float64, Memory: memory.Float64, Disk: disk.Float64}
	}
	r.dates()
	return &r, nil
}

// dates makes the times in words of those in numbers.
func (r *Run) dates() {
	r.CreatedAt, r.StartedAt, r.StoppedAt = isoOrNil(&r.created), isoOrNil(r.started), isoOrNil(r.stopped)
}

// insertRun makes the row of a new run and sets its key.
func insertRun(t *tx, r *Run, token []byte) error {
	limits, err := json.Marshal(r.Limits)
	if err != nil {
		return fmt.Errorf("encoding limits: %w", err)
	}
	var hash any
	if token != nil {
		hash = token
	}
	res, err := t.exec(`INSERT INTO runs (id, session, agent, driver, workspace, model, pace, limits, token, old, state, desired, created)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`, r.RunID, r.SessionID, r.Agent, r.Driver, r.Workspace, r.Model,
		int64(r.Pace*1000), string(limits), hash, r.old, string(r.State), string(r.Desired), r.created)
	if err != nil {
		return fmt.Errorf("keeping run %s: %w", r.RunID, err)
	}
	r.key, err = res.LastInsertId()
	r.dates()
	return err
}

// updateRun writes what changes in the life of a run.
func updateRun(t *tx, r *Run) error {
	var cpu, memory, disk any
	if v := r.Vitals; v != nil {
		cpu, memory, disk = v.CPU, v.Memory, v.Disk
	}
	using, err := json.Marshal(r.Using)
	if err != nil {
		return fmt.Errorf("encoding what run %s uses: %w", r.RunID, err)
	}
	_, err = t.exec(`UPDATE runs SET state=?, reason=?, until=?, desired=?, container=?, started=?, stopped=?, iteration=?, last_seq=?,
		last_outcome=?, input=?, output=?, total=?, cost=?, cpu=?, memory=?, disk=?, added=?, last_batch=?, using_now=? WHERE key=?`,
		string(r.State), r.Reason, r.Until, string(r.Desired), r.ContainerID, r.started, r.stopped, r.Iteration, r.LastSeq,
		string(r.LastOutcome), r.Usage.Input, r.Usage.Output, r.Usage.Total, r.Usage.Cost, cpu, memory, disk, r.added, r.lastBatch, string(using), r.key)
	if err != nil {
		return fmt.Errorf("keeping run %s: %w", r.RunID, err)
	}
	r.dates()
	return nil
}

// closeIterations ends the iterations of a run that nobody will end any more.
func closeIterations(t *tx, key, now int64) error {
	_, err := t.exec("UPDATE iterations SET ended=MAX(?, started), outcome=?, summary='Interrupted' WHERE run=? AND ended IS NULL",
		now, string(telemetry.Interrupted), key)
	if err != nil {
		return fmt.Errorf("ending the open iteration: %w", err)
	}
	return nil
}

// A prompt is one version of what a run, or every run without its own, is asked.
type prompt struct {
	id      int64 // its version; 0: none was ever set
	content string
	updated int64
	own     bool
}

// readPrompt reads the prompt that holds for a run; key 0 is the one of all runs.
func readPrompt(ctx context.Context, q querier, key int64) (prompt, error) {
	var p prompt
	err := q.QueryRowContext(ctx, `SELECT id, content, updated, 1 FROM prompts WHERE run = ?1 AND id = (SELECT MAX(id) FROM prompts WHERE run = ?1)
		UNION ALL SELECT id, content, updated, 0 FROM prompts WHERE run IS NULL AND id = (SELECT MAX(id) FROM prompts WHERE run IS NULL) ORDER BY 4 DESC LIMIT 1`, key).
		Scan(&p.id, &p.content, &p.updated, &p.own)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return prompt{}, fmt.Errorf("reading the prompt: %w", err)
	}
	return p, nil
}

// insertPrompt keeps a new version and returns its number.
func insertPrompt(t *tx, key int64, content string, now int64) (int64, error) {
	var run any
	if key != 0 {
		run = key
	}
	res, err := t.exec("INSERT INTO prompts (run, content, updated) VALUES (?,?,?)", run, content, now)
	if err != nil {
		return 0, fmt.Errorf("keeping the prompt: %w", err)
	}
	return res.LastInsertId()
}

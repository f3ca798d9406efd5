package controlplane

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// Bounds of a summary.
const (
	summaryTries = 3
	summaryLines = 400            // of an iteration; the first and the last of them when there are more
	summaryRunes = 500            // of the answer
	summaryYoung = 24 * time.Hour // older iterations are not worth a call
	summaryWait  = 5 * time.Second
	nothingToSay = "No activity"
)

// summaries has the model say in a sentence what an iteration was for, one iteration at
// a time, the newest first. What waits is in the database, so there is no queue that
// could grow, and nothing is forgotten by a restart.
func (p *Plane) summaries() {
	for {
		again, err := p.summariseNext(p.ctx)
		if err != nil && p.ctx.Err() == nil {
			p.log.Warn("an iteration could not be summarised", "error", err)
		}
		switch {
		case p.ctx.Err() != nil:
			return
		case err != nil:
			_ = pause(p.ctx, summaryWait) // it ends with the control plane, which is seen above
			continue
		case again:
			continue
		}
		select {
		case <-p.ctx.Done():
			return
		case <-p.summarise:
		}
	}
}

// summariseNext summarises one iteration; again says that there may be another.
func (p *Plane) summariseNext(ctx context.Context) (again bool, err error) {
	var id, number int64
	var run string
	err = p.db.read.QueryRowContext(ctx, `SELECT i.id, i.number, r.id FROM iterations i JOIN runs r ON r.key = i.run
		WHERE i.llm_summary IS NULL AND i.ended > ? AND i.llm_tries < ? ORDER BY i.ended DESC LIMIT 1`,
		p.o.Now().Add(-summaryYoung).UnixMilli(), summaryTries).Scan(&id, &number, &run)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for an iteration to summarise: %w", err)
	}
	text, callErr := p.summary(ctx, id)
	if callErr != nil && ctx.Err() != nil {
		return false, ctx.Err() // not the model's fault: it is not counted
	}
	err = p.db.write(ctx, func(t *tx) error {
		if callErr != nil {
			_, err := t.exec("UPDATE iterations SET llm_tries=llm_tries+1 WHERE id=?", id)
			return err
		}
		if _, err := t.exec("UPDATE iterations SET llm_summary=? WHERE id=?", text, id); err != nil {
			return err
		}
		t.then(func() {
			p.hub.tell(run, "iteration_summary", map[string]any{"iterationId": number, "runId": run, "summary": text}, p.now())
		})
		return nil
	})
	if callErr != nil {
		p.counts.unsummed.Add(1)
		return true, errors.Join(fmt.Errorf("iteration %d of run %s: %w", number, run, callErr), err)
	}
	p.counts.summaries.Add(1)
	return true, err
}

// summary asks the model, unless nothing happened.
func (p *Plane) summary(ctx context.Context, iteration int64) (string, error) {
	lines, err := p.summaryLines(ctx, iteration)
	if err != nil {
		return "", err
	}
	if len(lines) == 0 {
		return nothingToSay, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.SummaryTimeout)
	defer cancel()
	text, err := p.o.Summarize(ctx, lines)
	if err != nil {
		return "", err
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if runes := []rune(text); len(runes) > summaryRunes {
		text = string(runes[:summaryRunes])
	}
	if text == "" {
		return "", errors.New("the model answered nothing")
	}
	return text, nil
}

// summaryLines are the events of an iteration, a line each.
func (p *Plane) summaryLines(ctx context.Context, iteration int64) ([]string, error) {
	const half = summaryLines / 2
	first, err := readEvents(ctx, p.db.read, "WHERE e.iteration = ? ORDER BY e.id LIMIT ?", iteration, summaryLines)
	if err != nil {
		return nil, err
	}
	if len(first) == summaryLines {
		last, err := readEvents(ctx, p.db.read, "WHERE e.iteration = ? ORDER BY e.id DESC LIMIT ?", iteration, half)
		if err != nil {
			return nil, err
		}
		for i := half; i < summaryLines; i++ {
			first[i] = last[summaryLines-1-i]
		}
	}
	if err := decode(first); err != nil {
		return nil, err
	}
	var lines []string
	for _, s := range first {
		switch s.event.Type {
		case telemetry.IterationStart, telemetry.IterationEnd, telemetry.StateChange:
		default:
			lines = append(lines, fmt.Sprintf("[%s] %s", s.event.Type, s.event.Summary))
		}
	}
	return lines, nil
}

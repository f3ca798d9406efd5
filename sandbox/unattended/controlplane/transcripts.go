package controlplane

import (
	"context"
	"fmt"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// transcriptWait is how long it takes until a transcript that could not be written is
// tried again.
const transcriptWait = 5 * time.Second

// transcripts passes on events after they are kept: nothing waits for it, and after a
// restart it goes on where it was.
func (p *Plane) transcripts() {
	for {
		err := p.passOn(p.ctx)
		if p.ctx.Err() != nil {
			return
		}
		if err != nil {
			p.log.Warn("a transcript could not be written; it is tried again", "error", err)
			_ = pause(p.ctx, transcriptWait) // it ends with the control plane, which is seen above
			continue
		}
		select {
		case <-p.ctx.Done():
			return
		case <-p.transmit:
		}
	}
}

// passOn passes on what there is, run by run. One that fails holds up no other.
func (p *Plane) passOn(ctx context.Context) error {
	runs, err := readRuns(ctx, p.db.read, whereUntold)
	if err != nil {
		return err
	}
	var failed error
	for _, r := range runs {
		if err := p.passOnRun(ctx, r); err != nil && failed == nil {
			failed = fmt.Errorf("run %s: %w", r.RunID, err)
		}
	}
	return failed
}

func (p *Plane) passOnRun(ctx context.Context, r *Run) error {
	for r.told < r.LastSeq {
		kept, err := readEvents(ctx, p.db.read, eventsOfRun, r.key, r.told, replayPage)
		if err != nil {
			return err
		}
		if err := decode(kept); err != nil {
			return err
		}
		told := r.LastSeq // without events: retention was faster
		if len(kept) > 0 {
			events := make([]telemetry.Event, len(kept))
			for i := range kept {
				events[i] = kept[i].event
			}
			if err := p.o.Transcripts.OnEvents(ctx, *r, events); err != nil {
				return err
			}
			told = events[len(events)-1].Seq
		}
		err = p.db.write(ctx, func(t *tx) error {
			_, err := t.exec("UPDATE runs SET told=? WHERE key=?", told, r.key)
			return err
		})
		if err != nil {
			return err
		}
		r.told = told
	}
	return nil
}

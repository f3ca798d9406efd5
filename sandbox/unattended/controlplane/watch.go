package controlplane

import (
	"context"
	"time"
)

// How often the keepers are asked what their sandboxes use, and how long one may take.
const (
	watchEvery   = 15 * time.Second
	watchTimeout = 5 * time.Second
)

// watch keeps what sandboxes use, also between and within iterations.
func (p *Plane) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		live, err := readRuns(p.ctx, p.db.read, whereLive)
		if err != nil {
			p.log.Warn("the runs could not be read", "error", err)
			continue
		}
		for _, r := range live {
			if r.Driver != External {
				p.refresh(p.ctx, r.RunID)
			}
		}
	}
}

// refresh asks the keeper of a run how it is. A keeper that does not answer changes
// nothing: what is known stays.
func (p *Plane) refresh(ctx context.Context, id string) {
	ask, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	s, err := p.o.Fleet.Status(ask, id)
	if err != nil {
		p.log.Debug("a keeper did not answer", "run", id, "error", err)
		return
	}
	err = p.change(ctx, id, func(t *tx, r *Run) error {
		if s.ContainerID != "" {
			r.ContainerID = s.ContainerID
		}
		if r.live() {
			r.Using = s.Using
		}
		if s.Vitals == nil || !r.live() {
			return nil
		}
		r.Vitals = s.Vitals
		return insertVitals(t, r.key, p.now(), *s.Vitals)
	})
	if err != nil && ctx.Err() == nil {
		p.log.Warn("what a sandbox uses could not be kept", "run", id, "error", err)
	}
}

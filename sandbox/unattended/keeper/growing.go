package keeper

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"gander.dev/gander/sandbox/telemetry"
)

// growing is a message of the agent that is not complete yet. The control plane shows it;
// should the loop die in it, what there is of it is kept.
type growing struct {
	wake chan struct{} // has an element when something is to be sent

	// mu guards the message so far, and what of it was not sent yet.
	mu     sync.Mutex
	said   telemetry.Growth
	unsent telemetry.Growth
}

// grow takes the next part. What the canaries object to ends the message.
func (k *keeper) grow(g telemetry.Growth) {
	m := &k.growing
	m.mu.Lock()
	defer m.mu.Unlock()
	if !g.Follows(len(m.said.Content)) {
		return
	}
	if k.leaks.look(telemetry.Event{Type: g.Type, Content: g.Content}) != nil {
		m.said, m.unsent = telemetry.Growth{}, telemetry.Growth{}
		return
	}
	if g.Offset == 0 {
		m.said, m.unsent = g, g
	} else {
		if m.unsent.Content == "" {
			m.unsent = telemetry.Growth{Iteration: m.said.Iteration, Type: m.said.Type, Offset: g.Offset}
		}
		m.said.Content += g.Content
		m.unsent.Content += g.Content
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take ends the message and returns what there is of it.
func (m *growing) take() telemetry.Growth {
	m.mu.Lock()
	defer m.mu.Unlock()
	said := m.said
	m.said, m.unsent = telemetry.Growth{}, telemetry.Growth{}
	return said
}

// next returns what is to be sent.
func (m *growing) next() telemetry.Growth {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.unsent
	m.unsent = telemetry.Growth{}
	return g
}

// sendGrowing sends parts until ctx ends. One that does not arrive is not missed: the event
// with the whole message follows.
func (k *keeper) sendGrowing(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.growing.wake:
		}
		g := k.growing.next()
		if g.Content == "" {
			continue
		}
		raw, err := json.Marshal(g)
		if err == nil {
			_, err = k.plane.send(ctx, http.MethodPost, "/api/telemetry/growing", http.Header{"Content-Type": {"application/json"}}, raw)
		}
		if err != nil {
			k.log.Debug("a part of a message was not shown", "err", err)
		}
	}
}

package keeper

import (
	"context"
	"log/slog"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

const (
	countTime  = 2 * time.Second        // for asking the kernel, or a daemon that asks it
	countEvery = 250 * time.Millisecond // no more often: what was used in less says little
)

// meter measures a sandbox from outside, by the account that the kernel keeps of it.
type meter struct {
	sb   sandbox.Counted // nil when there is no account
	log  *slog.Logger
	at   time.Time
	used time.Duration // of the processors, until then
	last telemetry.Vitals
}

func newMeter(ctx context.Context, sb sandbox.Sandbox, log *slog.Logger) *meter {
	m := &meter{log: log}
	m.sb, _ = sb.(sandbox.Counted)
	if m.sb != nil && m.count(ctx) != nil {
		m.sb = nil
	}
	return m
}

// count asks how much was used.
func (m *meter) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	c, err := m.sb.Consumption(ctx)
	if err != nil {
		m.log.Debug("what the sandbox uses was not counted", "why", err)
		return err
	}
	now := time.Now()
	m.last.Memory = float64(c.Memory) / 1e6
	if passed := now.Sub(m.at); !m.at.IsZero() && passed > 0 {
		m.last.CPU = 100 * float64(c.CPU-m.used) / float64(passed)
	}
	m.at, m.used = now, c.CPU
	return nil
}

// correct puts the account in the place of what a loop says of processors and memory. How
// much of the disk is taken only the loop knows, which sees its files.
func (m *meter) correct(ctx context.Context, o *loop.Output) {
	said := o.Vitals
	if o.Event != nil {
		said = o.Event.Vitals
	}
	if said == nil || m.sb == nil {
		return
	}
	if time.Since(m.at) >= countEvery {
		_ = m.count(ctx) // what was counted last holds on
	}
	said.CPU, said.Memory = m.last.CPU, m.last.Memory
}

//go:build !linux

package local

import (
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// settle: other systems bound nothing but the time of commands.
func settle(l sandbox.Limits) sandbox.Limits { return l }

func resources(l sandbox.Limits) *supervise.Resources {
	return &supervise.Resources{Time: max(l.Time, 0)}
}

// bounds are none here.
type bounds struct{}

func newBounds(string, plan, bool) *bounds { return nil }

func (b *bounds) rest(r *supervise.Resources) *supervise.Resources { return r }

func (b *bounds) begun(int) {}

func (b *bounds) say() []string {
	return []string{"memory, processes, cpu, disk: not limited on this system"}
}

func (b *bounds) directories() []string { return nil }

func (b *bounds) release() {}

//go:build !linux

package shell

import (
	"io"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// outputs are the supervisor's streams.
type outputs struct{}

func redirect(*sandbox.Command) (*outputs, error) { return &outputs{}, nil }

func (o *outputs) begun(p supervise.Process) [streams]io.ReadCloser {
	return [streams]io.ReadCloser{io.NopCloser(p.Stdout()), io.NopCloser(p.Stderr())}
}

func (o *outputs) close() {}

//go:build !linux

package supervise

import (
	"errors"
	"os"
)

// handover of files takes sockets that carry them, and a supervisor for Linux.
type handover struct{}

func newHandover() (*handover, error) {
	return nil, errors.New("files cannot be handed to a supervisor on this system")
}

func (*handover) take(uint64) ([]*os.File, error) { return nil, errors.ErrUnsupported }

func (*Host) handOver(uint64, bool) (streams, error) { return nil, errors.ErrUnsupported }

// output is nothing that a command could have here.
type output struct{}

func (*output) interrupt() {}

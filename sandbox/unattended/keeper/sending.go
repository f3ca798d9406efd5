package keeper

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// sentFile is there when a run has ended and the control plane has all of its events.
const sentFile = "sent"

// Unsent reports whether events of the run, which has ended and has no keeper, may be
// left that the control plane does not have.
func (d Dir) Unsent() bool {
	_, err := os.Stat(d.file(sentFile))
	return errors.Is(err, fs.ErrNotExist)
}

func (k *keeper) openSpool() (*telemetry.Spool, error) {
	if err := os.Remove(k.dir.file(sentFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return telemetry.OpenSpool(telemetry.SpoolOptions{Dir: k.dir.file(spoolDir), RunID: k.dir.RunID, Log: k.log})
}

// drainPause is between two looks whether everything was sent.
const drainPause = 50 * time.Millisecond

// drain waits until the control plane has everything, for a bounded time: the next
// gander serve sees to the rest.
func (k *keeper) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	for k.spool.Acked() < k.spool.Last() {
		select {
		case <-ctx.Done():
			k.log.Warn("the control plane does not have all events of this run; the next one gets them", "sent", k.spool.Acked(), "of", k.spool.Last())
			return
		case <-time.After(drainPause):
		}
	}
	if err := writeFile(k.dir.file(sentFile), nil); err != nil {
		k.log.Warn("that everything was sent cannot be noted", "err", err)
	}
}

// send sends events until ctx ends.
func (k *keeper) send(ctx context.Context) {
	telemetry.NewUploader(telemetry.UploaderOptions{
		Spool: k.spool, RunID: k.dir.RunID, Log: k.log,
		Target: func() (telemetry.Target, error) {
			at, err := Served(k.o.Home)
			return telemetry.Target{URL: at.URL, Token: k.plane.token}, err
		},
	}).Run(ctx)
}

package demo

import (
	"context"
	"time"
)

// demoProcesses is how many processes the demo's command becomes: four that it
// leaves in the background and one that its shell turns into.
const demoProcesses = 5

// awaitProcesses waits a little until the demo's command has become what it is
// going to be, and returns how many processes that are.
func awaitProcesses(ctx context.Context, marker string) (n int, counted bool) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	late := time.After(5 * time.Second)
	for {
		found, counted := Processes(marker)
		if !counted || len(found) >= demoProcesses {
			return len(found), counted
		}
		select {
		case <-again.C:
		case <-late:
			return len(found), true
		case <-ctx.Done():
			return len(found), true
		}
	}
}

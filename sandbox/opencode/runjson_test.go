package opencode

import (
	"testing"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/telemetry/telemetrytest"
)

// captures are what a real opencode printed.
const captures = "testdata/runjson/*.txtar"

func parser() telemetry.Parser { return new(Events) }

// TestEvents compares what is made of captures, and how they are judged. -update rewrites
// what is expected.
func TestEvents(t *testing.T) { telemetrytest.Captures(t, captures, parser, *update) }

func FuzzEvents(f *testing.F) { telemetrytest.Fuzz(f, captures, parser) }

package loop_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/loop"
)

// TestMain makes the test binary its own supervisor, and a loop, as gander is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case supervise.Verb:
			os.Exit(supervise.Main(os.Args[1:]))
		case "loop":
			os.Exit(serveLoop())
		}
	}
	goleak.VerifyTestMain(m)
}

// serveLoop is gander loop run --supervised with an agent that prints events.
func serveLoop() int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := loop.Closed()
	if err == nil {
		err = loop.Serve(context.Background(), os.Stdin, os.Stdout, loop.ServeOptions{
			Driver: local.NewOff(local.Options{Log: log}), Log: log,
			Parsers: map[string]func() telemetry.Parser{"script": func() telemetry.Parser { return new(events) }},
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

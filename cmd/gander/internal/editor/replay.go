package editor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/replay"
)

// ReplayCommand returns the command gander replay.
func ReplayCommand(a *cli.App) *cobra.Command {
	var speed float64
	var trace string
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "play a recorded session back as an ACP agent, for demos and tests",
		Long: `replay is an ACP agent on stdin and stdout that plays FILE: a transcript
(sessions/<id>.jsonl in gander's home) or a trace ("gander acp --trace FILE"). No
agent, sandbox or model runs. session/new opens the recorded session, and each
prompt, whatever it says, plays the next recorded turn: its updates, its questions
and its end. session/load shows everything at once. It is the same on every run.

Lines that say nothing that can be played, and a torn end, are left out and counted
on stderr. A prompt after the last turn is answered with an error that says so.`,
		Example: `  gander replay ~/.gander/sessions/<id>.jsonl
  gander replay --speed 1 trace.jsonl   # in the time it took`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one file, as in: gander replay ~/.gander/sessions/<id>.jsonl")
			}
			return nil
		},
		Annotations: cli.Unconfigured(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(speed >= 0) { // nor is it what is no number
				return cli.UsageError("--speed is %v; it is how many times as fast as recorded, 0 waits for nothing", speed)
			}
			return replayTrace(cmd.Context(), a, args[0], speed, trace)
		},
	}
	cmd.Flags().Float64Var(&speed, "speed", 0, "how many times as fast as it was recorded; 0 waits for nothing")
	cli.TraceFlag(cmd, &trace)
	return cmd
}

// replayTrace serves the client until its stream ends or gander is told to stop.
func replayTrace(ctx context.Context, a *cli.App, file string, speed float64, traceFile string) error {
	recording, err := replay.Read(ctx, file)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, replay.ErrEmpty), errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EISDIR):
		return cli.UsageError("%s cannot be played: %v", file, err)
	case err != nil:
		return fmt.Errorf("%s cannot be played: %w", file, err)
	}
	if recording.Skipped > 0 {
		a.Log.Warn(fmt.Sprintf("%d lines of %s say nothing that can be played and are left out", recording.Skipped, file))
	}
	if cli.IsTerminal(a.In) {
		fmt.Fprintf(a.Err, "gander: replay plays %s to an editor, and waits for its messages on stdin; Ctrl-D ends it, gander session show is for people\n", file)
	}
	var t *cli.Tracer
	if traceFile != "" {
		if t, err = a.NewTracer(traceFile); err != nil {
			return err
		}
		defer t.Close()
	}
	agent := func(client *acp.ClientConn) acp.Agent {
		return replay.New(client, replay.Options{Recording: recording, Speed: speed, Version: cli.Version, Log: a.Log})
	}
	err = acp.ServeAgent(ctx, cli.NewStream(a.In, a.Out), agent, t.Options(a.Log))
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // told to stop: that is done
	}
	return err
}

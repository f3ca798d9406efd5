package editor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/chat"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/logging"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sessions"
)

// ChatCommand returns the command gander chat.
func ChatCommand(a *cli.App) *cobra.Command {
	f := show.RunFlags{Format: show.FormatText, Approve: show.ApproveAsk}
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "a conversation on the terminal, in this directory",
		Long: `chat talks with the agent on a terminal, the same way an editor does. gander alone does the
same.

  Enter          sends; Alt-Enter, Ctrl-J, or \ at the end of a line begins a new line
  / and Tab      commands, completed
  Up, Down       what was sent before
  Ctrl-C         cancels the turn; a second time it ends the conversation
  Ctrl-D, /exit  ends the conversation, which is kept

Questions are answered with the arrow keys and Enter, or by letter: y allows once, a always,
n refuses, d refuses always.

Where stdin is no terminal, or the terminal is a dumb one, each line of stdin is a prompt: the
answers go to stdout, progress to stderr.`,
		Example: "  gander chat\n  gander chat --continue\n  gander chat --session 4f2a --agent opencode",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return Chat(cmd.Context(), a, f) },
	}
	a.RouteFlags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.CWD, "cwd", ".", "the project's directory")
	fl.StringVar(&a.Flags.Model, "model", "", "the model (default: the configuration's)")
	fl.StringVar(&f.Session, "session", "", "go on with this session: a name, an id, the short id of gander session list, or last (default: a new one)")
	fl.BoolVarP(&f.Continue, "continue", "c", false, "go on with the last session of the directory")
	cli.TraceFlag(cmd, &f.Trace)
	return cmd
}

// Chat holds a conversation until the person ends it.
func Chat(ctx context.Context, a *cli.App, f show.RunFlags) error {
	w := wire.New(a)
	var t *cli.Tracer
	if f.Trace != "" {
		var err error
		if t, err = a.NewTracer(f.Trace); err != nil {
			return err
		}
		defer t.Close()
	}
	if cli.IsTerminal(a.In) && cli.IsTerminal(a.Out) && !slices.Contains(a.Environ, "TERM=dumb") {
		return chatOnScreen(ctx, a, f, w, t)
	}
	return chatInLines(ctx, a, f, w, t)
}

// notSetUp adds to an error what to do when gander has not been set up.
func notSetUp(err error) error {
	if mendedBySetup(err) {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("gander is not set up yet: %w; gander setup asks for what is missing", err)}
	}
	return err
}

// chatOnScreen holds the conversation on a terminal that can draw.
func chatOnScreen(ctx context.Context, a *cli.App, f show.RunFlags, w *wire.Wiring, t *cli.Tracer) error {
	screen := chat.New(chat.Options{
		In: a.In, Out: os.Stdout, Environ: a.Environ, Plain: a.Config.NoColor, Hide: a.Secrets.HideIn, Width: cli.WidthOf(a.Out),
	})
	above := *a // notes about the session are printed above the line
	above.Stdio.Err = screen
	c := show.NewTerminal(&above, f, "")
	cwd, err := ready(ctx, c, w)
	if err != nil {
		return notSetUp(err)
	}
	if a.Flags.LogFile == "" && a.Config.Log.File == "" {
		log, _, _, err := logging.New(logging.Options{
			Level: a.Config.Log.Level, Format: "pretty", Writer: screen, NoColor: a.Config.NoColor, Redact: a.Secrets.Hide,
		})
		if err != nil {
			return err
		}
		w.Log = log
	}
	w.Log = show.Without(show.Without(w.Log, show.IsFailedStart), show.IsNotice)
	var id acp.SessionID
	err = converse(ctx, screen, w, t, func(conn *acp.AgentConn) error {
		return screen.Run(ctx, func(ctx context.Context) (*chat.Thread, error) {
			thread, err := openThread(ctx, c, conn, w, cwd)
			if err == nil {
				id = thread.ID
			}
			return thread, err
		})
	})
	if err == nil && id != "" {
		short := sessions.ShortID(id)
		fmt.Fprintf(a.Out, "gander chat --session %s goes on with this conversation\n", short[:min(len(short), shownOfID)])
	}
	return err
}

// shownOfID is the length of a short id as people get to see it.
const shownOfID = 6

// openThread opens the session, and finds what was said in it before.
func openThread(ctx context.Context, c *show.Terminal, conn *acp.AgentConn, w *wire.Wiring, cwd string) (*chat.Thread, error) {
	id, options, err := start(ctx, c, conn, "gander-chat", cwd)
	if err != nil {
		return nil, err
	}
	thread := &chat.Thread{Conn: conn, ID: id, Options: options}
	if c.Prepared == nil || c.Prepared.New {
		thread.Header = []string{fmt.Sprintf("%s in %s; / shows the commands, Ctrl-D ends", c.Agent, cli.ShortDir(cwd))}
		return thread, nil
	}
	store, err := w.Store()
	if err != nil {
		return nil, err
	}
	answer := ""
	for m, err := range store.Conversation(ctx, id) {
		switch {
		case err != nil:
			return nil, err
		case m.Kind == string(sessions.RoleUser):
			thread.Earlier, answer = append(thread.Earlier, m.Text), ""
		case m.Kind == string(sessions.RoleAssistant):
			answer = m.Text
		}
	}
	info := &c.Prepared.Info
	thread.Header = []string{fmt.Sprintf("%s goes on, %s in %s", cli.Printable(cli.OneLineOf(info.ShownTitle())), c.Agent, cli.ShortDir(cwd))}
	thread.Answer = answer
	return thread, nil
}

// chatInLines holds the conversation with a script, or on a terminal that cannot draw: each
// line is a prompt. A signal cancels the turn; between turns it ends the conversation.
func chatInLines(ctx context.Context, a *cli.App, f show.RunFlags, w *wire.Wiring, t *cli.Tracer) error {
	c := show.NewTerminal(a, f, "")
	cwd, err := ready(ctx, c, w)
	if err != nil {
		return notSetUp(err)
	}
	w.Log = show.Without(show.Without(w.Log, show.IsFailedStart), show.IsNotice)
	return converse(ctx, c, w, t, func(conn *acp.AgentConn) error {
		id, _, err := start(ctx, c, conn, "gander-chat", cwd)
		if err != nil {
			return err
		}
		for {
			if cli.IsTerminal(a.In) {
				fmt.Fprint(a.Err, "› ")
			}
			line, err := c.Line(ctx)
			switch {
			case errors.Is(err, io.EOF) || line == "/exit" || line == "/quit":
				return nil
			case err != nil:
				return &cli.ExitError{Code: cli.ExitInterrupted}
			case strings.TrimSpace(line) == "":
				continue
			}
			c.Begin()
			resp, err := promptOnce(ctx, a, conn, &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock(line)}})
			if err != nil {
				a.Complain(c.Failed(err))
				continue
			}
			c.End(resp)
		}
	})
}

// promptOnce prompts, and cancels the turn at a signal.
func promptOnce(ctx context.Context, a *cli.App, conn *acp.AgentConn, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := a.Signals.Take()
	defer a.Signals.GiveBack()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-turn.Done():
		}
	}()
	return promptUntil(turn, conn, req)
}

// ChatOrHelp is gander without a command: a conversation where there is a person, else the
// help.
func ChatOrHelp(cmd *cobra.Command, a *cli.App) error {
	if !cli.IsTerminal(a.In) || !cli.IsTerminal(a.Out) {
		return cmd.Help()
	}
	if a.ConfigErr != nil {
		return a.ConfigErr
	}
	return Chat(cmd.Context(), a, show.RunFlags{CWD: ".", Format: show.FormatText, Approve: show.ApproveAsk})
}

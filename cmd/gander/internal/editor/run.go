package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/router"
)

// RunCommand returns the command gander run.
func RunCommand(a *cli.App) *cobra.Command {
	var f show.RunFlags
	cmd := &cobra.Command{
		Use:   "run [PROMPT…]",
		Short: "one turn from a terminal or a script",
		Long: `run sends one prompt the same way an editor does: the answer goes to stdout, progress
to stderr. The prompt is the arguments, or stdin when there are none. On a terminal without a prompt it
is gander chat.

Each run is a conversation of its own. --continue goes on with the last one of the
directory, an editor's too. --session NAME goes on with the one of that
name, also after days and after a crash, or begins it; NAME may also be the id of
any session, as gander session list shows them. A name belongs to one directory: in
another one it goes on with a new conversation, and says so.

The agent asks when its mode says so, and by default neither goose nor opencode does.
With --approve ask, reads or none the session is put into the mode that asks: goose's
approve, before every tool call; opencode's ask, before edits, commands and fetches, not
before reading. The session keeps that mode until another one is chosen. What you have
allowed for good in this project (gander session permissions list) stays allowed.

With --format json every line of stdout is an object, told apart by its one of these keys:
  sessionId      first: the session, with cwd and agent
  sessionUpdate  an update of the turn, as ACP has it (agent_message_chunk, tool_call, …)
  permission     what the agent asked for and what it was answered
  stopReason     last: how the turn ended, with the usage
  error          last instead, when it failed: the message

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 timeout, 4 no such
session, 5 a permission was asked for and not given, or the policy stopped the turn,
130 interrupted.`,
		Example: `  gander run "why does the test fail?"
  git diff | gander run --format quiet --timeout 5m
  gander run --session main "and now the other test"
  gander run --approve reads -- "look around"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.SetsAccess = cmd.Flags().Changed("read-only")
			f.Holds = cmd.Flags().Changed("approve") && f.Approve != show.ApproveAll
			return runPrompt(cmd.Context(), a, args, f)
		},
	}
	failed := func(err error) error {
		if err == nil {
			return nil
		}
		return (&show.Terminal{App: a, Flags: f}).Failed(err)
	}
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return failed(a.Begin(cmd)) }
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return failed(cmd.Parent().FlagErrorFunc()(cmd, err)) })
	a.RouteFlags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.CWD, "cwd", ".", "the project's directory")
	fl.StringVar(&f.Format, "format", show.FormatText, "text (answer on stdout, progress on stderr), json (every update as a line) or quiet (only the answer)")
	fl.StringVar(&f.Approve, "approve", show.ApproveAsk, "have the agent ask for permission, and answer: ask (on the terminal), reads (allow reading only) or none; or all, which allows what its mode asks")
	fl.StringVar(&a.Flags.Model, "model", "", "the model (default: the configuration's)")
	fl.StringVar(&f.Session, "session", "", "go on with this session: a name, an id, the short id of gander session list, or last (default: a new one)")
	fl.BoolVarP(&f.Continue, "continue", "c", false, "go on with the last session of the directory")
	fl.BoolVar(&f.NewSession, "new-session", false, "begin anew under the name of --session; the conversation before stays")
	fl.BoolVar(&f.NoSession, "no-session", false, "keep nothing of this run: no transcript, no trace")
	fl.BoolVar(&f.ReadOnly, "read-only", false, "show the agent the project for reading only; the session keeps that until --read-only=false")
	fl.DurationVar(&f.Timeout, "timeout", 0, "cancel the turn after this long, as in 90s or 5m (default: never)")
	cli.TraceFlag(cmd, &f.Trace)
	cli.CompleteFlag(cmd, "format", show.Formats...)
	cli.CompleteFlag(cmd, "approve", show.Approvals...)
	return cmd
}

// runPrompt runs one turn. What fails before there is a client to show it is shown here.
func runPrompt(ctx context.Context, a *cli.App, args []string, f show.RunFlags) error {
	if len(args) == 0 && f.Format == show.FormatText && cli.IsTerminal(a.In) && cli.IsTerminal(a.Out) {
		return Chat(ctx, a, f)
	}
	w := wire.New(a)
	c := show.NewTerminal(a, f, "")
	text, err := show.PromptText(a, args)
	if err != nil {
		return c.Failed(err)
	}
	cwd, err := ready(ctx, c, w)
	if err != nil {
		return c.Failed(err)
	}
	var t *cli.Tracer
	if f.Trace != "" {
		if t, err = a.NewTracer(f.Trace); err != nil {
			return c.Failed(err)
		}
		defer t.Close()
	}
	w.Log = show.Without(show.Without(w.Log, show.IsFailedStart), show.IsNotice)
	return converse(ctx, c, w, t, func(conn *acp.AgentConn) error { return turn(ctx, c, conn, cwd, text, w) })
}

// ready checks all that can be checked before anything starts, and finds the session
// and who answers in it.
func ready(ctx context.Context, c *show.Terminal, w *wire.Wiring) (cwd string, err error) {
	if err := c.Flags.Check(); err != nil {
		return "", err
	}
	if cwd, err = cli.ProjectDir(c.Flags.CWD); err != nil {
		return "", err
	}
	if c.Agent, err = readyFor(ctx, w, cwd); err != nil {
		return "", err
	}
	if c.Prepared, err = prepare(ctx, w, &c.Flags, c.Agent, cwd); err != nil {
		return "", err
	}
	answers := c.Agent
	if c.Prepared != nil && c.App.Flags.Agent == "" {
		answers = c.Prepared.Info.Agent
	}
	if c.Flags.Holds {
		_, err = askingModes(c, answers)
	}
	return cwd, err
}

// converse serves itself: router and client talk ACP over a pipe, as with an editor. It
// returns when do has, and nothing is left of what that started.
func converse(ctx context.Context, client acp.Client, w *wire.Wiring, t *cli.Tracer, do func(*acp.AgentConn) error) error {
	inner, outer := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- serveClient(context.WithoutCancel(ctx), w, inner, t) }()
	conn := acp.DialAgent(outer, client, &acp.Options{Log: w.Log})
	err := do(conn)
	_ = conn.Close()
	return errors.Join(err, <-served)
}

// readyFor says what is missing for a prompt in a directory, before anything
// starts, and returns the name of the agent that will answer.
func readyFor(ctx context.Context, w *wire.Wiring, cwd string) (string, error) {
	choice, err := w.Choose(cwd)
	if err != nil {
		return "", &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	agent, err := w.Agent(choice.Agent)
	if err != nil {
		return "", err
	}
	if err := agent.Check(ctx); err != nil {
		return "", &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if _, err := w.Policy(cwd); err != nil {
		return "", &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	_, err = w.Driver(choice.Sandbox)
	return choice.Agent, err
}

// start initializes the connection and opens the session of a conversation.
func start(ctx context.Context, c *show.Terminal, conn *acp.AgentConn, client, cwd string) (acp.SessionID, []acp.ConfigOption, error) {
	ctx = context.WithoutCancel(ctx)
	if _, err := conn.Initialize(ctx, &acp.InitializeRequest{
		ProtocolVersion:    acp.ProtocolVersion,
		ClientCapabilities: acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: json.RawMessage(`{}`)}},
		ClientInfo:         &acp.Implementation{Name: client, Version: cli.Version},
	}); err != nil {
		return "", nil, err
	}
	return open(ctx, c, conn, cwd)
}

// turn opens a session, prompts once and reports how it ended.
func turn(ctx context.Context, c *show.Terminal, conn *acp.AgentConn, cwd, text string, w *wire.Wiring) error {
	id, _, err := start(ctx, c, conn, "gander-run", cwd)
	if err != nil {
		return c.Failed(err)
	}
	c.Opened(id, cwd)
	c.Await()
	turn, stop := ctx, context.CancelFunc(func() {})
	if c.Flags.Timeout > 0 {
		turn, stop = context.WithTimeoutCause(ctx, c.Flags.Timeout, errTimeout)
	}
	defer stop()
	resp, err := promptUntil(turn, conn, &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
	return finish(turn, c, resp, err, w.Ways)
}

var errTimeout = errors.New("timeout")

const (
	cancelAgain  = 250 * time.Millisecond // a cancel before its prompt is without effect
	cancelGiveUp = 90 * time.Second       // more than the longest deadline an agent may be given
)

// promptUntil prompts, cancels the turn when its context ends, and waits for the answer.
func promptUntil(turn context.Context, conn *acp.AgentConn, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	waiting, abandon := context.WithCancel(context.WithoutCancel(turn))
	defer abandon()
	unwatch := context.AfterFunc(turn, func() {
		again := time.NewTicker(cancelAgain)
		defer again.Stop()
		giveUp := time.NewTimer(cancelGiveUp)
		defer giveUp.Stop()
		for {
			_ = conn.Cancel(req.SessionID)
			select {
			case <-waiting.Done():
				return
			case <-giveUp.C:
				abandon()
				return
			case <-again.C:
			}
		}
	})
	defer unwatch()
	return conn.Prompt(waiting, req)
}

// finish ends the output and turns the way the turn ended into an exit code.
func finish(turn context.Context, c *show.Terminal, resp *acp.PromptResponse, err error, models *confine.Ways) error {
	if router.Refused(err) {
		return &cli.ExitError{Code: cli.ExitPermission, Err: c.Failed(err)}
	}
	if err != nil {
		return c.Failed(err)
	}
	c.End(resp)
	stopped := router.StoppedByPolicy(resp)
	modelFailure, refused := models.LastFailure(time.Time{})
	switch {
	case stopped != "":
		return &cli.ExitError{Code: cli.ExitPermission, Err: fmt.Errorf("%s The turn was ended (policy.canaries: stop); see gander policy show", stopped)}
	case resp.StopReason == acp.StopCancelled && errors.Is(context.Cause(turn), errTimeout):
		return &cli.ExitError{Code: cli.ExitTimeout, Err: fmt.Errorf("the turn was cancelled after %s; allow more with --timeout", c.Flags.Timeout)}
	case resp.StopReason == acp.StopCancelled:
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New("interrupted; everything the turn had started is gone")}
	case c.Refused() != "":
		return &cli.ExitError{Code: cli.ExitPermission, Err: errors.New(c.Refused())}
	case refused:
		return &cli.ExitError{Code: cli.ExitPermission, Err: errors.New(modelFailure)}
	case modelFailure != "":
		return fmt.Errorf("the model did not answer: %s", strings.Replace(modelFailure, gateway.WillRetry+".", ", and the agent has given up; try again later, or see gander doctor.", 1))
	}
	return stopError(resp.StopReason)
}

// stopError is what is wrong with a turn that ended for a reason; nil when nothing is.
func stopError(reason acp.StopReason) error {
	switch reason {
	case acp.StopMaxTokens:
		return errors.New("the model reached its output limit, the answer is cut off; ask for less at a time")
	case acp.StopMaxTurnRequests:
		return errors.New("the agent reached its limit of model calls in one turn; ask for less at a time")
	case acp.StopRefusal:
		return errors.New("the model refused to answer; put the prompt another way")
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/router"
)

// runFlags are the flags of gander run.
type runFlags struct {
	cwd, format, approve, trace, session string
	newSession, noSession                bool
	// holds says that --approve was given: the agent has to ask before it acts.
	holds   bool
	timeout time.Duration
}

// The values of --format and --approve.
var (
	formats   = []string{formatText, formatJSON, formatQuiet}
	approvals = []string{approveAsk, approveReads, approveAll, approveNone}
)

const (
	formatText  = "text"
	formatJSON  = "json"
	formatQuiet = "quiet"

	approveAsk   = "ask"
	approveReads = "reads"
	approveAll   = "all"
	approveNone  = "none"
)

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [PROMPT…]",
		Short: "one turn from a terminal or a script",
		Long: `run sends one prompt the same way an editor does: the answer goes to stdout, progress
to stderr. The prompt is the arguments, or stdin when there are none.

Each run is a conversation of its own. --session NAME goes on with the one of that
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
			f.holds = cmd.Flags().Changed("approve") && f.approve != approveAll
			return a.runPrompt(cmd.Context(), args, f)
		},
	}
	failed := func(err error) error {
		if err == nil {
			return nil
		}
		return (&terminalClient{app: a, flags: f}).failed(err)
	}
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return failed(a.begin(cmd)) }
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return failed(cmd.Parent().FlagErrorFunc()(cmd, err)) })
	a.routeFlags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.cwd, "cwd", ".", "the project's directory")
	fl.StringVar(&f.format, "format", formatText, "text (answer on stdout, progress on stderr), json (every update as a line) or quiet (only the answer)")
	fl.StringVar(&f.approve, "approve", approveAsk, "have the agent ask for permission, and answer: ask (on the terminal), reads (allow reading only) or none; or all, which allows what its mode asks")
	fl.StringVar(&a.flags.Model, "model", "", "the model (default: the configuration's)")
	fl.StringVar(&f.session, "session", "", "go on with this session: a name, an id or a key (default: a new one)")
	fl.BoolVar(&f.newSession, "new-session", false, "begin anew under the name of --session; the conversation before stays")
	fl.BoolVar(&f.noSession, "no-session", false, "keep nothing of this run: no transcript, no trace")
	fl.DurationVar(&f.timeout, "timeout", 0, "cancel the turn after this long, as in 90s or 5m (default: never)")
	traceFlag(cmd, &f.trace)
	completeFlag(cmd, "format", formats...)
	completeFlag(cmd, "approve", approvals...)
	return cmd
}

func (f *runFlags) check() error {
	if !slices.Contains(formats, f.format) {
		return usageError("--format %q: choose one of %s", f.format, strings.Join(formats, ", "))
	}
	if !slices.Contains(approvals, f.approve) {
		return usageError("--approve %q: choose one of %s", f.approve, strings.Join(approvals, ", "))
	}
	if f.noSession && (f.newSession || f.session != "") {
		return usageError("--no-session keeps nothing, so that it cannot be given together with --session or --new-session")
	}
	if f.timeout < 0 {
		return usageError("--timeout %s is negative; leave it out to wait for ever", f.timeout)
	}
	return nil
}

// promptText is the prompt from the arguments, else from stdin.
func (a *app) promptText(args []string) (string, error) {
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if isTerminal(a.in) {
			return "", usageError(`no prompt; give it as an argument or on stdin, as in: gander run "what is this project?"`)
		}
		raw, err := io.ReadAll(a.in)
		if err != nil {
			return "", fmt.Errorf("reading the prompt from stdin: %w", err)
		}
		text = string(raw)
	}
	if strings.TrimSpace(text) == "" {
		return "", usageError("the prompt is empty; give it as an argument or on stdin")
	}
	return text, nil
}

// projectDir is the absolute path of a directory given by --cwd.
func projectDir(dir string) (string, error) {
	return directoryOf("--cwd", dir, "the project's directory")
}

// absolute is the absolute path of what a flag or an argument names.
func absolute(name, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", usageError("%s %s: the current directory is gone (%w); go to one that is there, or give an absolute path", name, path, err)
	}
	return abs, nil
}

// directoryOf is the absolute path of a directory given by a flag, which is to be used
// as something.
func directoryOf(flag, dir, use string) (string, error) {
	path, err := absolute(flag, dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", usageError("%s %s cannot be used as %s: %v", flag, dir, use, errors.Unwrap(err))
	case !info.IsDir():
		return "", usageError("%s %s is not a directory", flag, dir)
	case !utf8.ValidString(path):
		return "", usageError("%s %q cannot be used as %s: sessions and sandboxes take names in UTF-8 only; rename it", flag, path, use)
	}
	return path, nil
}

// runPrompt runs one turn. What fails before there is a client to show it is shown here.
func (a *app) runPrompt(ctx context.Context, args []string, f runFlags) error {
	w := a.wire()
	c := newTerminalClient(a, f, "")
	cwd, text, err := c.ready(ctx, args, w)
	if err != nil {
		return c.failed(err)
	}
	var t *tracer
	if f.trace != "" {
		if t, err = a.newTracer(f.trace); err != nil {
			return c.failed(err)
		}
		defer t.close()
	}
	return c.serve(ctx, w, t, cwd, text)
}

// ready checks all that can be checked before anything starts, and finds the session
// and who answers in it.
func (c *terminalClient) ready(ctx context.Context, args []string, w *wiring) (cwd, text string, err error) {
	if err := c.flags.check(); err != nil {
		return "", "", err
	}
	if cwd, err = projectDir(c.flags.cwd); err != nil {
		return "", "", err
	}
	if text, err = c.app.promptText(args); err != nil {
		return "", "", err
	}
	if c.agent, err = w.readyFor(ctx, cwd); err != nil {
		return "", "", err
	}
	if c.prepared, err = w.prepare(ctx, &c.flags, c.agent, cwd); err != nil {
		return "", "", err
	}
	answers := c.agent
	if c.prepared != nil && c.app.flags.Agent == "" {
		answers = c.prepared.Info.Agent
	}
	if c.flags.holds {
		_, err = askingMode(answers)
	}
	return cwd, text, err
}

// serve serves itself: router and client talk ACP over a pipe, as with an editor.
func (c *terminalClient) serve(ctx context.Context, w *wiring, t *tracer, cwd, text string) error {
	w.log = without(w.log, isFailedStart)
	if c.flags.format != formatQuiet {
		w.log = without(w.log, isNotice)
	}
	inner, outer := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- w.serve(context.WithoutCancel(ctx), inner, t) }()
	conn := acp.DialAgent(outer, c, &acp.Options{Log: w.log})
	err := c.turn(ctx, conn, cwd, text, w)
	_ = conn.Close()
	return errors.Join(err, <-served)
}

// readyFor says what is missing for a prompt in a directory, before anything
// starts, and returns the name of the agent that will answer.
func (w *wiring) readyFor(ctx context.Context, cwd string) (string, error) {
	choice, err := w.choose(cwd)
	if err != nil {
		return "", &exitError{exitUsage, err}
	}
	agent, err := w.agent(choice.Agent)
	if err != nil {
		return "", err
	}
	if err := agent.Check(ctx); err != nil {
		return "", &exitError{exitUsage, err}
	}
	if _, err := w.Policy(cwd); err != nil {
		return "", &exitError{exitUsage, err}
	}
	_, err = w.driver(choice.Sandbox)
	return choice.Agent, err
}

// turn opens a session, prompts once and reports how it ended.
func (c *terminalClient) turn(ctx context.Context, conn *acp.AgentConn, cwd, text string, w *wiring) error {
	setup := context.WithoutCancel(ctx)
	if _, err := conn.Initialize(setup, &acp.InitializeRequest{
		ProtocolVersion:    acp.ProtocolVersion,
		ClientCapabilities: acp.ClientCapabilities{Session: acp.ClientSessionCapabilities{Notices: json.RawMessage(`{}`)}},
		ClientInfo:         &acp.Implementation{Name: "gander-run", Version: version},
	}); err != nil {
		return c.failed(err)
	}
	id, err := c.open(setup, conn, cwd)
	if err != nil {
		return c.failed(err)
	}
	c.opened(id, cwd)
	turn, stop := ctx, context.CancelFunc(func() {})
	if c.flags.timeout > 0 {
		turn, stop = context.WithTimeoutCause(ctx, c.flags.timeout, errTimeout)
	}
	defer stop()
	resp, err := promptUntil(turn, conn, &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
	return c.finish(turn, resp, err, w.ways)
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
func (c *terminalClient) finish(turn context.Context, resp *acp.PromptResponse, err error, models *confine.Ways) error {
	if router.Refused(err) {
		return &exitError{exitPermission, c.failed(err)}
	}
	if err != nil {
		return c.failed(err)
	}
	c.end(resp)
	stopped := router.StoppedByPolicy(resp)
	modelFailure, refused := models.LastFailure(time.Time{})
	switch {
	case stopped != "":
		return &exitError{exitPermission, fmt.Errorf("%s The turn was ended (policy.canaries: stop); see gander policy show", stopped)}
	case resp.StopReason == acp.StopCancelled && errors.Is(context.Cause(turn), errTimeout):
		return &exitError{exitTimeout, fmt.Errorf("the turn was cancelled after %s; allow more with --timeout", c.flags.timeout)}
	case resp.StopReason == acp.StopCancelled:
		return &exitError{exitInterrupted, errors.New("interrupted; everything the turn had started is gone")}
	case c.refused() != "":
		return &exitError{exitPermission, errors.New(c.refused())}
	case refused:
		return &exitError{exitPermission, errors.New(modelFailure)}
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

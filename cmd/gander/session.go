package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

func (a *app) sessionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "the conversations that are kept: list, show, rename, shorten, export, delete",
		Long: `session works on the conversations of editors, of gander run and of loops. A session is
named by its id, by at least 6 characters that its id begins with, by its key
(agent:goose:main), or by the name that gander run --session gave it.

Exit code 4 means that there is no such session, or that its transcript is damaged.`,
	}
	cmd.AddCommand(a.sessionList(), a.sessionShow(), a.sessionSearch(), a.sessionRename(), a.sessionReset(), a.sessionCompact(), a.sessionPrune(),
		a.sessionExport(), a.sessionDelete(), a.sessionImport(), a.sessionDiff(), a.sessionUndo(), a.sessionPermissions())
	group(cmd)
	return cmd
}

// oneSession takes exactly one argument, a reference.
func oneSession(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
		return usageError("name one session, as in: %s ID; gander session list shows them", cmd.CommandPath())
	}
	return nil
}

// resolve finds a session by what a person calls it.
func (a *app) resolve(ctx context.Context, ref string) (*sessions.Store, sessions.Info, error) {
	store, err := a.wire().store()
	if err != nil {
		return nil, sessions.Info{}, err
	}
	info, err := store.Resolve(ctx, ref, a.cfg.Agent)
	return store, info, sessionError(ref, err)
}

// sessionError is an error about a session with what to do about it, and the exit
// code that is for it.
func sessionError(ref string, err error) error {
	switch {
	case errors.Is(err, sessions.ErrNotFound):
		return &exitError{exitNoSession, fmt.Errorf("there is no session %q; gander session list shows those that there are", ref)}
	case errors.Is(err, sessions.ErrDamaged):
		return &exitError{exitNoSession, err}
	case errors.Is(err, sessions.ErrInUse):
		return fmt.Errorf("session %s cannot be changed while it is in use: %w", ref, err)
	}
	return err
}

func (a *app) sessionList() *cobra.Command {
	var o sessions.ListOptions
	var asJSON bool
	var active int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the sessions, the last used ones first",
		Long: `list shows the sessions of this home, the last used ones first. With --json each has
everything that is known of it without reading its transcript.`,
		Example: "  gander session list\n  gander session list --cwd . --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listSessions(cmd.Context(), o, active, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.CWD, "cwd", "", "only sessions of this directory")
	fl.StringVar(&o.Agent, "agent", "", "only sessions of this agent")
	a.completeAgents(cmd)
	fl.IntVar(&o.Limit, "limit", 0, "at most so many (default: all)")
	fl.IntVar(&active, "active-minutes", 0, "only sessions that were used in the last so many minutes")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) listSessions(ctx context.Context, o sessions.ListOptions, active int, asJSON bool) error {
	if o.Limit < 0 || active < 0 {
		return usageError("--limit and --active-minutes cannot be negative")
	}
	if o.CWD != "" {
		dir, err := projectDir(o.CWD)
		if err != nil {
			return err
		}
		o.CWD = dir
	}
	store, err := a.wire().store()
	if err != nil {
		return err
	}
	page, err := store.List(ctx, o)
	if err != nil {
		return err
	}
	for _, id := range page.Damaged {
		if _, err := store.Info(ctx, id); err != nil {
			a.complain(err)
		}
	}
	list := page.Sessions
	if active > 0 {
		since := time.Now().Add(-time.Duration(active) * time.Minute)
		for i := range list {
			if list[i].UpdatedAt.Before(since) {
				list = list[:i]
				break
			}
		}
	}
	if asJSON {
		return a.printJSON(list)
	}
	if len(list) == 0 && (o.CWD != "" || o.Agent != "" || active > 0) {
		fmt.Fprintln(a.err, "no session is among those; gander session list shows all of them")
		return nil
	}
	return a.printSessions(list)
}

// printSessions prints a table that is not wider than the terminal.
func (a *app) printSessions(list []sessions.Info) error {
	if len(list) == 0 {
		fmt.Fprintln(a.err, `no sessions yet; an editor makes them, and: gander run --session main "what is this project?"`)
		return nil
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tUSED\tAGENT\tTURNS\tDIRECTORY\tTITLE")
	for i := range list {
		s := &list[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, since(time.Since(s.UpdatedAt)), printable(s.Agent), s.Turns, printable(shortDir(s.WorkingPath)), printable(s.ShownTitle()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	width := terminalWidth(a.out)
	for line := range strings.Lines(table.String()) {
		if _, err := fmt.Fprintln(a.out, a.secrets.hideIn(fit(strings.TrimRight(line, " \n"), width))); err != nil {
			return err
		}
	}
	return nil
}

// terminalWidth is how wide a terminal is; 0 when it is none.
func terminalWidth(out any) int {
	f, ok := fileOf(out)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// fit cuts a line to a width, unless that is 0.
func fit(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}

// shortDir is a directory with ~ for the person's own.
func shortDir(dir string) string {
	own, err := os.UserHomeDir()
	if rest, ok := strings.CutPrefix(dir, own); err == nil && ok && own != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
		return "~" + rest
	}
	return dir
}

// since is a length of time for people, in its largest unit.
func since(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}

func (a *app) sessionShow() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:     "show SESSION",
		Aliases: []string{"history"},
		Short:   "what is known of a session, and what was said in it",
		Long: `show prints what is known of a session and its conversation: what was asked and
answered, and each tool call as a line. export has all of it.`,
		Example: "  gander session show main\n  gander session show 0198c1d2 --limit 10 --json",
		Args:    oneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError("--limit cannot be negative")
			}
			store, info, err := a.resolve(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showSession(cmd.Context(), store, info, limit, asJSON)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "only the last so many messages and tool calls (default: all)")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// shownMessage is a message as gander session show --json prints it.
type shownMessage struct {
	Kind string    `json:"kind"`
	Text string    `json:"text"`
	Time time.Time `json:"time"`
	Turn string    `json:"turnId,omitempty"`
}

func (a *app) showSession(ctx context.Context, store *sessions.Store, info sessions.Info, limit int, asJSON bool) error {
	messages, err := readMessages(ctx, store, info.ID, limit)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(struct {
			sessions.Info
			Messages []shownMessage `json:"history"`
		}{info, messages})
	}
	a.printInfo(&info)
	for _, m := range messages {
		fmt.Fprintf(a.out, "\n%s, %s\n%s\n", speaker(&m, info.Agent), m.Time.Local().Format("2006-01-02 15:04"), a.shown(m.Text))
	}
	return nil
}

// shown is text of a transcript for a person: without secrets, and on a terminal
// without what could control it.
func (a *app) shown(text string) string {
	if isTerminal(a.out) {
		text = printable(text)
	}
	return a.secrets.hideIn(strings.TrimRight(text, "\n"))
}

func speaker(m *shownMessage, agent string) string {
	switch m.Kind {
	case string(sessions.RoleUser):
		return "You"
	case string(sessions.RoleAssistant):
		return printable(agent)
	case sessions.EntryTool:
		return "Tool"
	case sessions.EntrySummary:
		return "Summary of what came before"
	}
	return "System"
}

func (a *app) printInfo(i *sessions.Info) {
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, a.secrets.hideIn(printable(value)))
		}
	}
	row("Title", i.ShownTitle())
	row("Session", string(i.ID))
	if i.Key != string(i.ID) {
		row("Key", i.Key)
	}
	row("Directory", i.WorkingPath)
	row("Agent", i.Agent)
	row("Made", i.CreatedAt.Local().Format("2006-01-02 15:04"))
	row("Used", i.UpdatedAt.Local().Format("2006-01-02 15:04"))
	row("Size", fmt.Sprintf("%d turns, %d messages, %d tool calls", i.Turns, i.Messages, i.ToolCalls))
	row("Last turn", string(i.StopReason))
	row("Before", string(i.PreviousID))
	row("Forked from", string(i.ForkedFrom))
	row("Imported from", i.Imported)
	_ = w.Flush() // of a writer to stdout
}

// readMessages are what was said and done in a session, the last limit of it.
func readMessages(ctx context.Context, store *sessions.Store, id acp.SessionID, limit int) ([]shownMessage, error) {
	out := []shownMessage{}
	for m, err := range store.Conversation(ctx, id) {
		if err != nil {
			return nil, err
		}
		if limit > 0 && len(out) == 2*limit {
			out = append(out[:0], out[limit:]...)
		}
		out = append(out, shownMessage{m.Kind, m.Text, m.Time, m.TurnID})
	}
	if limit > 0 && len(out) > limit {
		out = out[len(out)-limit:]
	}
	return out, nil
}

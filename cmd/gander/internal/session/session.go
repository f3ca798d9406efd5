// Package session holds the commands about kept conversations.
package session

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sessions"
)

// Command returns the command gander session.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "the conversations that are kept: list, show, rename, shorten, export, delete",
		Long: `session works on the conversations of editors, of gander run and of loops. A session is
named by its id, by at least 6 characters that its id begins with, by its key
(agent:goose:main), or by the name that gander run --session gave it.

Exit code 4 means that there is no such session, or that its transcript is damaged.`,
	}
	cmd.AddCommand(sessionList(a), sessionShow(a), sessionSearch(a), sessionRename(a), sessionReset(a), sessionCompact(a), sessionPrune(a),
		sessionExport(a), sessionDelete(a), sessionImport(a), sessionDiff(a), sessionUndo(a), sessionPermissions(a))
	cli.Group(cmd)
	return cmd
}

// oneSession takes exactly one argument, a reference.
func oneSession(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
		return cli.UsageError("name one session, as in: %s ID; gander session list shows them", cmd.CommandPath())
	}
	return nil
}

// resolve finds a session by what a person calls it.
func resolve(ctx context.Context, a *cli.App, ref string) (*sessions.Store, sessions.Info, error) {
	store, err := wire.New(a).Store()
	if err != nil {
		return nil, sessions.Info{}, err
	}
	info, err := store.Resolve(ctx, ref, a.Config.Agent)
	return store, info, wire.SessionError(ref, err)
}

func sessionList(a *cli.App) *cobra.Command {
	var o sessions.ListOptions
	var asJSON bool
	var active int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the sessions, the last used ones first",
		Long: `list shows the sessions of this home, the last used ones first. With --json each has
everything that is known of it without reading its transcript.`,
		Example: "  gander session list\n  gander session list --cwd . --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listSessions(cmd.Context(), a, o, active, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.CWD, "cwd", "", "only sessions of this directory")
	fl.StringVar(&o.Agent, "agent", "", "only sessions of this agent")
	a.CompleteAgents(cmd)
	fl.IntVar(&o.Limit, "limit", 0, "at most so many (default: all)")
	fl.IntVar(&active, "active-minutes", 0, "only sessions that were used in the last so many minutes")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func listSessions(ctx context.Context, a *cli.App, o sessions.ListOptions, active int, asJSON bool) error {
	if o.Limit < 0 || active < 0 {
		return cli.UsageError("--limit and --active-minutes cannot be negative")
	}
	if o.CWD != "" {
		dir, err := cli.ProjectDir(o.CWD)
		if err != nil {
			return err
		}
		o.CWD = dir
	}
	store, err := wire.New(a).Store()
	if err != nil {
		return err
	}
	page, err := store.List(ctx, o)
	if err != nil {
		return err
	}
	for _, id := range page.Damaged {
		if _, err := store.Info(ctx, id); err != nil {
			a.Complain(err)
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
		return a.PrintJSON(list)
	}
	if len(list) == 0 && (o.CWD != "" || o.Agent != "" || active > 0) {
		fmt.Fprintln(a.Err, "no session is among those; gander session list shows all of them")
		return nil
	}
	return printSessions(a, list)
}

// printSessions prints a table that is not wider than the terminal.
func printSessions(a *cli.App, list []sessions.Info) error {
	if len(list) == 0 {
		fmt.Fprintln(a.Err, `no sessions yet; an editor makes them, and: gander run --session main "what is this project?"`)
		return nil
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tUSED\tAGENT\tTURNS\tDIRECTORY\tTITLE")
	for i := range list {
		s := &list[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, cli.Since(time.Since(s.UpdatedAt)), cli.Printable(s.Agent), s.Turns, cli.Printable(cli.ShortDir(s.WorkingPath)), cli.Printable(s.ShownTitle()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	width := cli.TerminalWidth(a.Out)
	for line := range strings.Lines(table.String()) {
		if _, err := fmt.Fprintln(a.Out, a.Secrets.HideIn(cli.Fit(strings.TrimRight(line, " \n"), width))); err != nil {
			return err
		}
	}
	return nil
}

func sessionShow(a *cli.App) *cobra.Command {
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
				return cli.UsageError("--limit cannot be negative")
			}
			store, info, err := resolve(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			return showSession(cmd.Context(), a, store, info, limit, asJSON)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "only the last so many messages and tool calls (default: all)")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// shownMessage is a message as gander session show --json prints it.
type shownMessage struct {
	Kind string    `json:"kind"`
	Text string    `json:"text"`
	Time time.Time `json:"time"`
	Turn string    `json:"turnId,omitempty"`
}

func showSession(ctx context.Context, a *cli.App, store *sessions.Store, info sessions.Info, limit int, asJSON bool) error {
	messages, err := readMessages(ctx, store, info.ID, limit)
	if err != nil {
		return err
	}
	if asJSON {
		return a.PrintJSON(struct {
			sessions.Info
			Messages []shownMessage `json:"history"`
		}{info, messages})
	}
	printInfo(a, &info)
	for _, m := range messages {
		fmt.Fprintf(a.Out, "\n%s, %s\n%s\n", speaker(&m, info.Agent), m.Time.Local().Format("2006-01-02 15:04"), shown(a, m.Text))
	}
	return nil
}

// shown is text of a transcript for a person: without secrets, and on a terminal
// without what could control it.
func shown(a *cli.App, text string) string {
	if cli.IsTerminal(a.Out) {
		text = cli.Printable(text)
	}
	return a.Secrets.HideIn(strings.TrimRight(text, "\n"))
}

func speaker(m *shownMessage, agent string) string {
	switch m.Kind {
	case string(sessions.RoleUser):
		return "You"
	case string(sessions.RoleAssistant):
		return cli.Printable(agent)
	case sessions.EntryTool:
		return "Tool"
	case sessions.EntrySummary:
		return "Summary of what came before"
	}
	return "System"
}

func printInfo(a *cli.App, i *sessions.Info) {
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, a.Secrets.HideIn(cli.Printable(value)))
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

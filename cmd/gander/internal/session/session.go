// Package session holds the commands about kept conversations.
package session

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

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
		Long: `session works on the conversations of editors, of gander run, of gander chat and of loops.
A session is named by the id that list shows (4 characters of it are enough where no other
session has them), by last for this directory's last one, by the name that gander run
--session gave it, or by its key (agent:goose:main).

Exit code 4 means that there is no such session, or that its transcript is damaged.`,
	}
	cmd.AddCommand(sessionList(a), sessionShow(a), sessionSearch(a), sessionRename(a), sessionReset(a), sessionCompact(a), sessionPrune(a),
		sessionExport(a), sessionDelete(a), sessionImport(a), sessionDiff(a), sessionUndo(a), sessionRewind(a), sessionPermissions(a))
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
	dir, err := os.Getwd()
	if err != nil && strings.EqualFold(strings.TrimSpace(ref), sessions.LastRef) {
		return nil, sessions.Info{}, fmt.Errorf("finding the last session of this directory: %w; go to a directory that is there, or name the session", err)
	}
	info, err := store.ResolveIn(ctx, ref, a.Config.Agent, dir)
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
		return fmt.Errorf("%w; %s", err, cli.HomeAdvice)
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

// printSessions prints a table that is not wider than the terminal. Where that is narrow
// the directory is cut first, then the title.
func printSessions(a *cli.App, list []sessions.Info) error {
	if len(list) == 0 {
		fmt.Fprintln(a.Err, `no sessions yet; an editor makes them, gander chat, and: gander run --session main "what is this project?"`)
		return nil
	}
	short := shortIDs(list)
	table := [][]string{{"SESSION", "USED", "AGENT", "TURNS", "TITLE", "DIRECTORY"}}
	for i := range list {
		s := &list[i]
		table = append(table, []string{
			short[i], cli.Since(time.Since(s.UpdatedAt)), cli.Printable(s.Agent), strconv.Itoa(s.Turns),
			cli.Printable(cli.OneLineOf(s.ShownTitle())), cli.Printable(cli.ShortDir(s.WorkingPath)),
		})
	}
	const title, directory = 4, 5
	widths := make([]int, directory+1)
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if all := cli.TerminalWidth(a.Out); all > 0 {
		left := all
		for _, w := range widths[:title] {
			left -= w + 2
		}
		widths[title] = min(widths[title], max(left-2-min(widths[directory], leastDirectory), leastTitle))
		widths[directory] = min(widths[directory], max(left-2-widths[title], leastTitle))
	}
	for _, row := range table {
		row[title] = cli.Fit(row[title], widths[title])
		row[directory] = cli.FitEnd(row[directory], widths[directory])
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		if _, err := fmt.Fprintln(a.Out, a.Secrets.HideIn(strings.TrimRight(line.String(), " "))); err != nil {
			return err
		}
	}
	return nil
}

// The characters that a title and a directory keep on a narrow terminal.
const (
	leastTitle     = 8
	leastDirectory = 14
)

// shortIDs returns as much of each session's short id as tells the sessions apart, at
// least 6 characters.
func shortIDs(list []sessions.Info) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = sessions.ShortID(list[i].ID)
	}
	for n := 6; ; n++ {
		seen := map[string]bool{}
		cut := make([]string, len(ids))
		for i, id := range ids {
			cut[i] = id
			if len(id) == sessions.ShortLength {
				cut[i] = id[:n]
			}
			seen[cut[i]] = true
		}
		if len(seen) == len(ids) || n == sessions.ShortLength {
			return cut
		}
	}
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
	row("Size", cli.Count(i.Turns, "turns")+", "+cli.Count(i.Messages, "messages")+", "+cli.Count(i.ToolCalls, "tool calls"))
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

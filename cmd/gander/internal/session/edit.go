package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sessions"
)

func sessionRename(a *cli.App) *cobra.Command {
	var title string
	cmd := &cobra.Command{
		Use:     "rename SESSION TITLE…",
		Short:   "give a session a title",
		Example: "  gander session rename main the great refactoring",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && title == "" {
				title = strings.Join(args[1:], " ")
				args = args[:1]
			}
			if err := oneSession(cmd, args); err != nil {
				return err
			}
			if strings.TrimSpace(title) == "" {
				return cli.UsageError("the title is empty; give it behind the session")
			}
			store, info, err := resolve(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			_, err = store.SetTitle(cmd.Context(), info.ID, title, sessions.TitleByPerson)
			return err
		},
	}
	cmd.Flags().StringVar(&title, "title", "", "the title, instead of the arguments behind the session")
	return cmd
}

func sessionReset(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reset SESSION",
		Short: "let the name of a session go on with a new, empty one",
		Long: `reset makes a new session under the key of another, in its directory. The old one
stays, under its id. An editor's thread is not changed: it begins anew in the editor.`,
		Example: "  gander session reset main",
		Args:    oneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, info, err := resolve(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			if info.Key == string(info.ID) {
				return cli.UsageError("session %s has no name that could go on with a new one: it is an editor's thread; begin a new one there", info.ID)
			}
			if info.Origin == sessions.OriginLoop {
				return cli.UsageError("session %s is that of a loop, which begins a new one with every run: gander loop start", info.ID)
			}
			p, err := store.Restart(cmd.Context(), info)
			if err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(p.Info)
			}
			fmt.Fprintf(a.Out, "%s goes on with the new session %s; what was said before is in %s\n", info.Key, p.Info.ID, info.ID)
			return nil
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// changing runs f with a session that nobody runs meanwhile.
func changing(ctx context.Context, a *cli.App, ref string, f func(*sessions.Store, sessions.Info) error) error {
	store, info, err := resolve(ctx, a, ref)
	if err != nil {
		return err
	}
	release, err := store.Claim(info.ID)
	if err != nil {
		return wire.SessionError(ref, err)
	}
	defer release()
	return f(store, info)
}

func sessionPrune(a *cli.App) *cobra.Command {
	var keep int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prune SESSION",
		Short: "let the agent forget all but the last messages",
		Long: `prune has the agent begin again with only the last messages of a session. The others
stay in the transcript, and editors show them as before.`,
		Example: "  gander session prune main --keep 10",
		Args:    oneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := keepMessages(keep)
			if err != nil {
				return err
			}
			return changing(cmd.Context(), a, args[0], func(store *sessions.Store, info sessions.Info) error {
				c, err := store.Prune(cmd.Context(), info.ID, n)
				return shortened(a, c, err, asJSON, "pruned")
			})
		},
	}
	keepFlag(cmd, &keep)
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func keepFlag(cmd *cobra.Command, keep *int) {
	cmd.Flags().IntVar(keep, "keep", 20, "how many of the last messages stay as they are, at least; turns are not cut in two")
}

// keepMessages is a --keep as the store wants it: less than 0 is none.
func keepMessages(keep int) (int, error) {
	switch {
	case keep < 0:
		return 0, cli.UsageError("--keep %d is negative; 0 keeps none", keep)
	case keep == 0:
		return -1, nil
	}
	return keep, nil
}

// shortened says what came of a shorter conversation.
func shortened(a *cli.App, c sessions.Compacted, err error, asJSON bool, done string) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.PrintJSON(c)
	case !c.Applied:
		fmt.Fprintf(a.Out, "nothing was %s: there are %d messages, no more than are kept\n", done, c.Kept)
		return nil
	}
	fmt.Fprintf(a.Out, "%d messages were %s, %d stay as they are\n", c.Messages, done, c.Kept)
	if c.Summary != "" {
		fmt.Fprintf(a.Out, "\n%s\n", shown(a, c.Summary))
	}
	return nil
}

func sessionDelete(a *cli.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete SESSION…",
		Short: "remove sessions and their transcripts for good",
		Long: `delete removes sessions and their transcripts for good, and what is kept for undoing
their turns. On a terminal it asks first; elsewhere it needs --yes.`,
		Example: "  gander session delete 0198c1d2\n  gander session delete --yes main",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.UsageError("name a session; gander session list shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return deleteSessions(cmd.Context(), a, args, yes) },
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func deleteSessions(ctx context.Context, a *cli.App, refs []string, yes bool) error {
	var found []sessions.Info
	loops := wire.New(a).Loops()
	for _, ref := range refs { // all are there, or nothing is deleted
		_, info, err := resolve(ctx, a, ref)
		if err == nil {
			err = router.Deletable(ctx, loops, &info)
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(found, func(f sessions.Info) bool { return f.ID == info.ID }) {
			found = append(found, info)
		}
	}
	if !yes {
		for i := range found {
			fmt.Fprintf(a.Err, "%s  %s (%s)\n", found[i].ID, a.Secrets.HideIn(cli.Printable(found[i].ShownTitle())), cli.Count(found[i].Turns, "turns"))
		}
		if err := confirm(ctx, a, "Delete for good?"); err != nil {
			return err
		}
	}
	kept, err := wire.New(a).Kept()
	if err != nil {
		return err
	}
	var errs []error
	for i := range found {
		if err := kept.Erase(ctx, found[i].ID); err != nil {
			errs = append(errs, wire.SessionError(string(found[i].ID), err))
			continue
		}
		fmt.Fprintf(a.Out, "deleted %s\n", found[i].ID)
	}
	return errors.Join(errs...)
}

// confirm asks the person on the terminal; without one --yes is needed.
func confirm(ctx context.Context, a *cli.App, question string) error {
	if !cli.IsTerminal(a.In) {
		return cli.UsageError("this cannot be undone and there is nobody to ask; say --yes")
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // ends with the process: a read of a terminal cannot be stopped
		line, _ := bufio.NewReader(a.In).ReadString('\n') // without an answer it is no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case word := <-answer:
		if word == "y" || word == "yes" {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return &cli.ExitError{Code: cli.ExitPermission, Err: errors.New("not done: it was not confirmed")}
}

func sessionImport(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import DIRECTORY",
		Short: "take over the sessions of an OpenGoat home",
		Long: `import takes over the sessions of an OpenGoat home (sessions.json and the transcripts of
each agent). They keep their ids, so that importing again takes only what is new. What
cannot be taken is named; when that is all that there is, the exit code is 1.
The home is only read, and of nothing outside of it.`,
		Example: "  gander session import ~/.opengoat",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one directory, as in: gander session import ~/.opengoat")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := cli.Absolute("importing from", args[0])
			if err != nil {
				return err
			}
			store, err := wire.New(a).Store()
			if err != nil {
				return err
			}
			done, err := store.ImportOpenGoat(cmd.Context(), dir)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.PrintJSON(done)
			} else {
				err = printImported(a, done)
			}
			here := func(s sessions.Skipped) bool { return s.Here }
			if err == nil && len(done.Sessions) == 0 && len(done.Skipped) > 0 && !slices.ContainsFunc(done.Skipped, here) {
				err = errors.New("nothing was imported; mend what is named above, and import again")
			}
			return err
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func printImported(a *cli.App, done *sessions.Imported) error {
	for _, s := range done.Sessions {
		note := ""
		if s.Note != "" {
			note = " (" + s.Note + ")"
		}
		fmt.Fprintf(a.Out, "%s  %s  %s%s\n", s.ID, cli.Printable(s.Key), cli.Count(s.Messages, "messages"), cli.Printable(note))
	}
	for _, s := range done.Skipped {
		fmt.Fprintf(a.Err, "not taken: %s: %s\n", cli.Printable(s.What), cli.Printable(s.Why))
	}
	_, err := fmt.Fprintf(a.Out, "%s imported, %d not taken\n", cli.Count(len(done.Sessions), "sessions"), len(done.Skipped))
	return err
}

func sessionExport(a *cli.App) *cobra.Command {
	var format, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "write a session as Markdown or JSON",
		Long: `export writes a session to stdout or to a file: as Markdown for people, with prompts,
answers, thoughts, tool calls and their differences, or as JSON with every record.`,
		Example: "  gander session export main > session.md\n  gander session export main --format json -o session.json",
		Args:    oneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && cmd.Flags().Changed("format") && format != "json" {
				return cli.UsageError("--json and --format %s exclude each other; choose one", format)
			}
			if asJSON {
				format = "json"
			}
			if format != "markdown" && format != "json" {
				return cli.UsageError("--format %q: choose markdown or json", format)
			}
			store, info, err := resolve(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			write := store.ExportMarkdown
			if format == "json" {
				write = store.ExportJSON
			}
			if file == "" {
				return write(cmd.Context(), info.ID, a.PlainOut())
			}
			return toFile(file, func(w io.Writer) error { return write(cmd.Context(), info.ID, w) })
		},
	}
	cmd.Flags().StringVar(&format, "format", "markdown", "markdown or json")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this file, which must not be there yet, instead of stdout")
	cli.CompleteFlag(cmd, "format", "markdown", "json")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as --format json")
	return cmd
}

// toFile writes a new file that only the person can read.
func toFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return cli.UsageError("%s is there already; choose another name", name)
	}
	if err != nil {
		return cli.UsageError("--output cannot be written: %v; name a file in a directory that is there and yours", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

func sessionSearch(a *cli.App) *cobra.Command {
	var o sessions.ListOptions
	var asJSON bool
	limit := 50
	cmd := &cobra.Command{
		Use:   "search TEXT…",
		Short: "find a text in all sessions",
		Long: `search finds a text, in any case, in the titles, messages, tool calls and summaries of
all sessions, the last used ones first.`,
		Example: "  gander session search race condition\n  gander session search --cwd . timeout --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.TrimSpace(strings.Join(args, " "))
			if text == "" || limit < 1 {
				return cli.UsageError("give the text to find, and a --limit of at least 1")
			}
			if o.CWD != "" {
				dir, err := cli.ProjectDir(o.CWD)
				if err != nil {
					return err
				}
				o.CWD = dir
			}
			return searchSessions(cmd.Context(), a, text, o, limit, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.CWD, "cwd", "", "only sessions of this directory")
	fl.StringVar(&o.Agent, "agent", "", "only sessions of this agent")
	a.CompleteAgents(cmd)
	fl.IntVar(&limit, "limit", limit, "at most so many hits")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func searchSessions(ctx context.Context, a *cli.App, text string, o sessions.ListOptions, limit int, asJSON bool) error {
	store, err := wire.New(a).Store()
	if err != nil {
		return err
	}
	hits := []sessions.Hit{}
	for h, err := range store.Search(ctx, text, o) {
		if err != nil {
			return err
		}
		hits = append(hits, h)
		if len(hits) == limit {
			break
		}
	}
	if asJSON {
		return a.PrintJSON(hits)
	}
	width := cli.TerminalWidth(a.Out)
	for _, h := range hits {
		line := fmt.Sprintf("%s  %s  %s: %s", h.Session.ID, h.Time.Local().Format("2006-01-02 15:04"), h.Kind, cli.Printable(h.Excerpt))
		fmt.Fprintln(a.Out, cli.Fit(a.Secrets.HideIn(line), width))
	}
	if len(hits) == 0 {
		fmt.Fprintf(a.Err, "no session has %q in it\n", text)
	}
	return nil
}

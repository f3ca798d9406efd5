package session

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sessions"
)

func sessionRewind(a *cli.App) *cobra.Command {
	var conversation, yes bool
	cmd := &cobra.Command{
		Use:   "rewind SESSION [TURN]",
		Short: "list the turns, or put conversation and files back to before one of them",
		Long: `rewind lists the turns of a session. With the number of one it puts conversation and files
back to before it: the agent goes on without that turn and those behind it. When one of the
files was changed since, nothing is put back and the files are named. The turns stay in the
transcript, and a rewind to before the rewind brings them back. On a terminal it asks first;
elsewhere it needs --yes.`,
		Example: "  gander session rewind main\n  gander session rewind main 3",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				if n, err := strconv.Atoi(args[1]); err != nil || n < 1 {
					return cli.UsageError("%q is not the number of a turn; gander session rewind %s lists them", args[1], args[0])
				}
				args = args[:1]
			}
			return oneSession(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if len(args) == 1 {
				store, info, err := resolve(ctx, a, args[0])
				if err != nil {
					return err
				}
				thread, err := store.Thread(ctx, info.ID)
				if err == nil {
					_, err = fmt.Fprintln(a.Out, shown(a, router.DescribeThread(thread, "gander session rewind "+string(info.ID)+" %d", "... %d --conversation")))
				}
				return err
			}
			number, _ := strconv.Atoi(args[1]) // it is one
			return changing(ctx, a, args[0], func(store *sessions.Store, info sessions.Info) error {
				return rewind(ctx, a, store, info, number, conversation, yes)
			})
		},
	}
	cmd.Flags().BoolVar(&conversation, "conversation", false, "leave the files as they are")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func rewind(ctx context.Context, a *cli.App, store *sessions.Store, info sessions.Info, number int, conversation, yes bool) error {
	if info.Origin == sessions.OriginLoop {
		return cli.UsageError("session %s is that of a loop, whose agent would not know of it; gander session undo puts back files", info.ID)
	}
	thread, err := store.Thread(ctx, info.ID)
	if err != nil {
		return err
	}
	to, err := thread.To(number, "")
	if err != nil {
		return cli.UsageError("%v; gander session rewind %s lists the turns that there are", err, info.ID)
	}
	if !yes {
		if err := confirm(ctx, a, fmt.Sprintf("Put the session back to before turn %d?", number)); err != nil {
			return err
		}
	}
	files := "The files stay as they are.\n"
	if !conversation && wire.KeepingOf(a.Config) != nil {
		if files, err = rewindFiles(ctx, a, info.ID, router.FilesOf(thread, to)); err != nil {
			return fmt.Errorf("nothing was put back: %w; with --conversation the files stay as they are", err)
		}
	}
	if err := store.Append(ctx, info.ID, sessions.Record{Body: *to}); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, shown(a, router.DescribeRewind(thread, to, number, "gander session rewind "+string(info.ID)+" %d")+files))
	return err
}

func rewindFiles(ctx context.Context, a *cli.App, id acp.SessionID, to changes.Target) (text string, err error) {
	err = withTree(ctx, a, string(id), func(tree *changes.Tree, info sessions.Info, root string) error {
		if err := checkIdle(a, root); err != nil {
			return err
		}
		undone, redone, err := tree.Rewind(ctx, string(info.ID), to)
		text = router.DescribeFiles(undone, redone)
		return err
	})
	return text, err
}

//go:build manual

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// Those who package gander make manual pages with a build of their own, as cmd/dist does:
// what writes them takes time at every start of a program that it is in.
//
//	go run -tags manual ./cmd/gander man DIRECTORY
func init() { forPackagers = append(forPackagers, manCommand) }

func manCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "write the manual pages",
		Long: `man writes a manual page for every command into a directory. SOURCE_DATE_EPOCH is the
date in them, so that they can be made twice alike.`,
		Example:     "  gander man /usr/local/share/man/man1",
		Hidden:      true,
		Annotations: cli.Unconfigured(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError("name one directory, as in: gander man man/")
			}
			return writeManual(a, cmd.Root(), args[0])
		},
	}
}

func writeManual(a *cli.App, root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the directory of the manual: %w", err)
	}
	root.DisableAutoGenTag = true // it would say when
	err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "gander " + cli.Version, Manual: "gander"}, dir)
	if err != nil {
		return fmt.Errorf("writing the manual: %w", err)
	}
	_, err = fmt.Fprintln(a.Out, "wrote the manual into", dir)
	return err
}

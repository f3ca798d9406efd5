//go:build manual

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Those who package gander make manual pages with a build of their own, as cmd/dist does:
// what writes them takes time at every start of a program that it is in.
//
//	go run -tags manual ./cmd/gander man DIRECTORY
func init() { forPackagers = append(forPackagers, (*app).manCommand) }

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "write the manual pages",
		Long: `man writes a manual page for every command into a directory. SOURCE_DATE_EPOCH is the
date in them, so that they can be made twice alike.`,
		Example:     "  gander man /usr/local/share/man/man1",
		Hidden:      true,
		Annotations: unconfigured(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("name one directory, as in: gander man man/")
			}
			return a.writeManual(cmd.Root(), args[0])
		},
	}
}

func (a *app) writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the directory of the manual: %w", err)
	}
	root.DisableAutoGenTag = true // it would say when
	err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "gander " + version, Manual: "gander"}, dir)
	if err != nil {
		return fmt.Errorf("writing the manual: %w", err)
	}
	_, err = fmt.Fprintln(a.out, "wrote the manual into", dir)
	return err
}

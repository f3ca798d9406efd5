package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) sandboxBuild() *cobra.Command {
	var fresh bool
	cmd := &cobra.Command{
		Use:   "build [AGENT…]",
		Short: "build the agents' container images",
		Long: `build builds the images goku-sandbox-<agent>:latest for the docker sandbox, all of them
or those of the named agents. npm fetches the agents to this machine and checks them against
the lock file. In a checkout of gander the images are built from its folder sandbox/. The
same files, packages of Debian and base make the same image, to the bit.`,
		Example:           "  gander sandbox build\n  gander sandbox build goose",
		ValidArgsFunction: cobra.FixedCompletions(agentNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, agents []string) error {
			for _, name := range agents {
				if !slices.Contains(agentNames(), name) {
					return usageError("there is no image for an agent %q; there is one for each of %s", name, strings.Join(agentNames(), ", "))
				}
			}
			return a.buildImages(cmd.Context(), agents, fresh)
		},
	}
	cmd.Flags().BoolVar(&fresh, "no-cache", false, "build everything again, with Debian's packages as they are now")
	return cmd
}

package sandboxcmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/install"
	"gander.dev/gander/sandbox/drivers/docker"
)

func sandboxBuild(a *cli.App) *cobra.Command {
	var fresh bool
	var snapshot, base, from string
	cmd := &cobra.Command{
		Use:   "build [AGENT…]",
		Short: "build the agents' container images",
		Long: `build builds the images goku-sandbox-<agent>:latest for the docker sandbox, all of them
or those of the named agents. npm fetches the agents to this machine and checks them against
the lock file. The images are made of this program's own files; --context names the folder
sandbox/ of a checkout of gander instead. The same files, packages of Debian and base make the
same image, to the bit. Debian's packages are those that its archive has now, unless a snapshot
pins them; apt checks their signatures either way. The base is debian:bookworm-slim as it is on
this machine, or else as the registry has it now, unless a digest pins it.`,
		Example:           "  gander sandbox build\n  gander sandbox build goose\n  gander sandbox build --debian-snapshot 20261101T000000Z --base debian@sha256:…",
		ValidArgsFunction: cobra.FixedCompletions(cli.AgentNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, agents []string) error {
			for _, name := range agents {
				if !slices.Contains(cli.AgentNames(), name) {
					return cli.UsageError("there is no image for an agent %q; there is one for each of %s", name, strings.Join(cli.AgentNames(), ", "))
				}
			}
			archive := ""
			if snapshot != "" {
				var err error
				if archive, err = docker.DebianArchive(snapshot); err != nil {
					return cli.UsageError("--debian-snapshot: %v", err)
				}
			}
			if from != "" {
				if err := docker.CheckContext(from); err != nil {
					return cli.UsageError("--context: %v", err)
				}
			}
			if from == "" && docker.CheckContext("sandbox") == nil {
				fmt.Fprintln(a.Err, "gander: this program's own files are used; for those of this directory: --context sandbox")
			}
			return install.BuildImages(cmd.Context(), a, docker.BuildOptions{Agents: agents, Context: from, Fresh: fresh, Archive: archive, Base: base})
		},
	}
	cmd.Flags().StringVar(&snapshot, "debian-snapshot", "", "Debian's packages as they were at this `time` (YYYYMMDDTHHMMSSZ, see snapshot.debian.org), or those of the archive at an address")
	cmd.Flags().StringVar(&base, "base", "", "the `image` of Debian 12 to build on, instead of debian:bookworm-slim; a digest (debian@sha256:…) pins it")
	cmd.Flags().StringVar(&from, "context", "", "the `folder` sandbox/ of a checkout of gander to build from, instead of this program's own files; npm runs in it")
	cmd.Flags().BoolVar(&fresh, "no-cache", false, "build everything again, with Debian's packages as they are now")
	return cmd
}

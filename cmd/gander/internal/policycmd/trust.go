package policycmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
)

func policyTrustCommand(a *cli.App) *cobra.Command {
	var cwd string
	var yes, revoke bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "give the project what its .gander.json asks for",
		Long: `trust shows what the project's .gander.json would get beyond your own policy, asks, and
remembers that and the content of the file. A file that changes, by anybody, is not
trusted any more, and it gets no more than was shown when you tighten your own policy
later. Exit code 5 when you say no.`,
		Example: `  gander policy trust
  gander policy trust --cwd ~/project --yes
  gander policy trust --revoke`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if revoke { // whatever the file says
				return revokeTrust(a, cwd)
			}
			cfg, dir, err := projectConfig(a, cwd)
			if err != nil {
				return err
			}
			return trustAll(cmd.Context(), a, cfg, dir, yes)
		},
	}
	cli.CWDFlag(cmd, &cwd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the trust back")
	return cmd
}

// trustAll trusts the project's file, and the stores that git has objects in elsewhere.
func trustAll(ctx context.Context, a *cli.App, cfg *config.Config, dir string, yes bool) error {
	before := wire.GitPlace(cfg, dir, false)
	if len(before.Unknown) == 0 {
		return trust(ctx, a, cfg, dir, yes)
	}
	for _, store := range before.Unknown {
		if _, err := fmt.Fprintf(a.Out, "git's objects in %s, to be read\n", cli.Printable(store)); err != nil {
			return err
		}
	}
	if cfg.ProjectFileContent() == nil {
		if err := confirmTrust(ctx, a, dir, yes); err != nil {
			return err
		}
	} else if err := trust(ctx, a, cfg, dir, yes); err != nil {
		return err
	}
	if left := wire.GitPlace(cfg, dir, true).Unknown; len(left) > 0 {
		return fmt.Errorf("the stores of git's objects could not be remembered in %s; choose a directory that you can write with --home or GANDER_HOME", cfg.TrustStore().Dir)
	}
	_, err := fmt.Fprintln(a.Out, "git's objects there are shown from the next session on")
	return err
}

// trust remembers the content that was read once, and shown.
func trust(ctx context.Context, a *cli.App, cfg *config.Config, dir string, yes bool) error {
	requests := cfg.EffectivePolicy().Refused
	switch {
	case cfg.ProjectFileContent() == nil:
		return cli.UsageError("there is no %s in %s to be trusted", config.ProjectFile, dir)
	case len(requests) == 0 && cfg.ProjectTrusted():
		_, err := fmt.Fprintf(a.Out, "%s is trusted already; gander policy show says what holds\n", config.ProjectFile)
		return err
	case len(requests) == 0:
		_, err := fmt.Fprintf(a.Out, "%s asks for nothing beyond your own policy; there is nothing to trust\n", config.ProjectFile)
		return err
	}
	if err := printRequests(a, requests); err != nil {
		return err
	}
	if err := confirmTrust(ctx, a, dir, yes); err != nil {
		return err
	}
	if err := cfg.Trust(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "trusted, until %s changes; it counts for the next session\n", config.ProjectFile)
	return err
}

func confirmTrust(ctx context.Context, a *cli.App, dir string, yes bool) error {
	if yes {
		return nil
	}
	if !cli.IsTerminal(a.In) {
		return cli.UsageError("nobody can be asked without a terminal; look at the list above and give --yes")
	}
	ok, err := show.NewPrompter(a.In, a.Err).Yes(ctx, "Give all of this to agents in "+cli.Printable(dir)+"?", false)
	if err == nil && !ok {
		err = &cli.ExitError{Code: cli.ExitPermission, Err: errors.New("nothing was changed")}
	}
	return err
}

func revokeTrust(a *cli.App, cwd string) error {
	dir, err := cli.ProjectDir(cwd)
	if err != nil {
		return err
	}
	had, err := a.Config.TrustStore().Forget(dir)
	if err != nil {
		return fmt.Errorf("taking the trust back: %w; %s", err, cli.HomeAdvice)
	}
	text := "the project's file is not trusted any more; it counts for the next session"
	if !had {
		text = "the project's file was not trusted"
	}
	_, err = fmt.Fprintln(a.Out, text)
	return err
}

// Package conformancecmd checks other people's agents and MCP servers.
package conformancecmd

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/natefinch/atomic"
	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/conformance/harness"
	conformance "gander.dev/gander/conformance/mcp"
)

// Command returns the command gander conformance.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "check any server or agent against what gander promises",
	}
	cmd.AddCommand(conformanceMCP(a), conformanceACP(a))
	cli.Group(cmd)
	return cmd
}

// conformanceFlags are the flags of gander conformance mcp.
type conformanceFlags struct {
	checkFlags
	profile, os string
}

func conformanceMCP(a *cli.App) *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "mcp [flags] -- CMD…",
		Short: "check a developer server that speaks MCP on stdio",
		Long: `conformance mcp starts CMD as an MCP server and holds it against the requirements of
goose's developer extension: lifecycle, transport, tools, metadata, cancellation,
bounds of output, ignore rules, and what is left when it ends. Nothing is assumed
about CMD but that it speaks MCP on its stdin and stdout.

A check that does not apply is n/a with the reason, and never passes. The exit code
is 0 when every check passed or failed as expected, 1 when one did not, 2 when CMD
could not be checked. A list of expected failures has an id and a reason on each
line; one of them that passes fails the run.

{dir} in CMD is replaced by the directory in which the server is to work.`,
		Example: `  gander conformance mcp -- gander mcp developer
  gander conformance mcp --profile current -- gander mcp developer --profile current
  gander conformance mcp --only cancel,policy.shell --json -- gander mcp developer
  gander conformance mcp --dir /srv/work -- docker exec -i -w {dir} box gander mcp developer
  gander conformance mcp --platform windows -- wine gander.exe mcp developer`,
		Annotations: cli.Unconfigured(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return listChecks(a, f.json)
			}
			if len(args) == 0 {
				return cli.UsageError("no command; as in: gander conformance mcp -- gander mcp developer")
			}
			return judgeServer(cmd.Context(), a, args, f)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.profile, "profile", conformance.Classic, "the tools that the server has: classic or current")
	fl.StringVar(&f.os, "platform", "", "the system that the server is built for: linux, darwin, windows (default: this one)")
	fl.StringVar(&f.dir, "dir", "", "where the checks work; the server has to see it under the same name (default: a temporary directory)")
	fl.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait for what should happen at once")
	cli.CompleteFlag(cmd, "profile", conformance.Classic, conformance.Current)
	cli.CompleteFlag(cmd, "platform", "linux", "darwin", "windows")
	return cmd
}

// judgeServer runs the checks and prints their report.
func judgeServer(ctx context.Context, a *cli.App, command []string, f conformanceFlags) error {
	expected, err := readExpected(f.expected, conformance.ParseExpected)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	report, err := conformance.Run(ctx, conformance.Options{
		Command: command, Profile: f.profile, Platform: f.os, Only: f.only, Timeout: f.timeout, Dir: f.dir,
		Environ: a.Environ, Expected: expected, Each: progressOfChecks(a, f.json), Log: a.Log,
	})
	return conclude(ctx, a, report, err, f.checkFlags)
}

// conclude prints the report of a run, and makes the exit code of it.
func conclude(ctx context.Context, a *cli.App, report *harness.Report, err error, f checkFlags) error {
	if err != nil && ctx.Err() == nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if report != nil {
		if err := printReport(a, report, f); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err() // what was checked until then has been printed
	}
	if !report.Good() {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

// progressOfChecks says on a terminal which check has ended: a run takes a minute.
func progressOfChecks(a *cli.App, quiet bool) func(harness.Result) {
	if quiet || !cli.IsTerminal(a.Err) {
		return nil
	}
	return func(r harness.Result) {
		fmt.Fprintf(a.Err, "%s %s (%s)\n", r.State, r.ID, cli.RoundDuration(r.Took))
	}
}

func printReport(a *cli.App, report *harness.Report, f checkFlags) error {
	if f.junit != "" {
		var xml bytes.Buffer
		if err := report.WriteJUnit(&xml); err != nil {
			return fmt.Errorf("writing JUnit's XML: %w; name another file with --junit", err)
		}
		if err := atomic.WriteFile(f.junit, &xml); err != nil {
			return fmt.Errorf("writing JUnit's XML: %w; name another file with --junit", err)
		}
	}
	if f.json {
		return a.PrintJSON(report)
	}
	return report.WriteTable(a.Out)
}

// listedCheck is a check as --list prints it.
type listedCheck struct {
	ID           string                    `json:"id"`
	Word         string                    `json:"word"`
	Text         string                    `json:"text"`
	Profile      string                    `json:"profile,omitempty"`
	Platform     string                    `json:"platform,omitempty"`
	Requirements []conformance.Requirement `json:"requirements"`
}

func listChecks(a *cli.App, asJSON bool) error {
	requirements := map[int]conformance.Requirement{}
	for _, r := range conformance.Requirements() {
		requirements[r.Number] = r
	}
	var all []listedCheck
	for _, c := range conformance.Checks() {
		l := listedCheck{ID: c.ID, Word: c.Word(), Text: c.Text, Profile: c.Profile, Platform: c.Platform}
		for _, n := range c.Requirements {
			l.Requirements = append(l.Requirements, requirements[n])
		}
		all = append(all, l)
	}
	if asJSON {
		return a.PrintJSON(map[string]any{"checks": all})
	}
	return printChecks(a, all)
}

func printChecks(a *cli.App, all []listedCheck) error {
	tab := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	for _, c := range all {
		limits := strings.TrimSpace(c.Profile + " " + c.Platform)
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", c.ID, c.Word, limits, c.Text)
		for _, r := range c.Requirements {
			fmt.Fprintf(tab, "\t\t\t  R%d: %s\n", r.Number, r.Text)
		}
	}
	return tab.Flush()
}

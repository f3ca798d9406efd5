package sandboxcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/trials/probe"
)

// probeFlags are the flags of gander sandbox probe.
type probeFlags struct {
	sandbox string
	only    []string
	asJSON  bool
	list    bool
	rounds  int
}

func sandboxProbe(a *cli.App) *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "try to get out of a sandbox, in every way that is known",
		Long: `probe makes a project of its own in a temporary directory, with closed files, and
around it what a person has: keys, sockets, a process, listeners. Then it carries out
a catalogue of attempts to get at them, each twice: outside over a plain shell, where
it must succeed, and inside. An attempt that fails outside, too, proves nothing, and
one that cannot be tried is not counted as blocked. What git keeps of closed files is
hidden as by "git": "hide" in the policy. Nothing of yours is touched.

The exit code is 1 when an attempt got through.`,
		Example: "  gander sandbox probe\n  gander sandbox probe --sandbox docker --only git,proc\n  gander sandbox probe --only 'files/by a hard link' --json\n  gander sandbox probe --list",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return listProbes(a, f.asJSON)
			}
			return probeSandbox(cmd.Context(), a, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.sandbox, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	fl.StringSliceVar(&f.only, "only", nil, "only these classes or cases, apart by commas")
	fl.IntVar(&f.rounds, "rounds", 0, "how often attempts that depend on luck are made (default 200)")
	fl.BoolVar(&f.list, "list", false, "only list the attempts")
	a.WeakerFlag(cmd)
	cli.JSONFlag(cmd, &f.asJSON)
	cli.CompleteFlag(cmd, "sandbox", cli.SandboxChoices()...)
	return cmd
}

// listedCase is a case as --list --json prints it.
type listedCase struct {
	ID    string   `json:"id"`
	Tries string   `json:"tries"`
	Needs []string `json:"needs,omitempty"`
}

func listProbes(a *cli.App, asJSON bool) error {
	var list []listedCase
	for _, c := range probe.Catalogue() {
		tries := c.Sh
		if c.Do != "" {
			tries = "built in: " + c.Do
		}
		list = append(list, listedCase{c.ID, tries, c.Needs})
	}
	if asJSON {
		return a.PrintJSON(list)
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	for _, c := range list {
		fmt.Fprintf(w, "%s\t%s\n", c.ID, strings.Join(strings.Fields(c.Tries), " "))
	}
	return w.Flush()
}

// probed is the outcome as --json prints it.
type probed struct {
	*probe.Report
	Blocked  int `json:"blocked"`
	Escaped  int `json:"escaped"`
	Unproven int `json:"unproven"`
	Untried  int `json:"untried"`
}

func probeSandbox(ctx context.Context, a *cli.App, f probeFlags) error {
	exe, err := cli.Program()
	if err != nil {
		return err
	}
	w := wire.New(a)
	driver, err := w.Driver(cmp.Or(f.sandbox, a.Config.Sandbox.Driver))
	if err != nil {
		return err
	}
	o := probe.Options{Executable: exe, Only: f.only, Rounds: f.rounds, Owner: -1, Create: func(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
		spec.Rules = w.Rules()
		if spec.Rules.Optional { // it may keep no rules, and then hides nothing
			return driver.Create(ctx, spec)
		}
		return confine.CreateHiding(ctx, driver, spec, filepath.Join(filepath.Dir(spec.Home), "state"))
	}}
	if !f.asJSON {
		o.Done = func(r probe.Result) { printProbe(a, a.Out, r) }
	}
	report, err := runProbe(ctx, a, o)
	if errors.Is(err, probe.ErrUnknown) {
		return cli.UsageError("%v; gander sandbox probe --list has them all", err)
	}
	if err != nil {
		return err
	}
	p := probed{report, report.Count(probe.Blocked), report.Count(probe.Escaped), report.Count(probe.Unproven), report.Count(probe.Untried)}
	if f.asJSON {
		err = a.PrintJSON(p)
	} else {
		err = printProbed(a, p)
	}
	if err == nil && p.Escaped > 0 {
		err = &cli.ExitError{Code: cli.ExitFailed, Err: fmt.Errorf("%d of %d attempts got out of the %s sandbox (%s)", p.Escaped, len(report.Results), report.Driver, report.Isolation)}
	}
	return err
}

// runProbe runs the attempts, and shows that where they are not printed one by one.
func runProbe(ctx context.Context, a *cli.App, o probe.Options) (report *probe.Report, err error) {
	if o.Done != nil {
		return probe.Run(ctx, o)
	}
	err = show.During(a, "trying to get out", 2*time.Minute, func() (err error) {
		report, err = probe.Run(ctx, o)
		return err
	})
	return report, err
}

// printProbe prints one case when it is there: a whole run takes a minute.
func printProbe(a *cli.App, w io.Writer, r probe.Result) {
	outside := "succeeds"
	switch r.Verdict {
	case probe.Unproven:
		outside = "fails"
	case probe.Untried:
		outside = "-"
	}
	fmt.Fprintf(w, "%-15s outside %-9s inside %s  %s\n", r.Verdict, outside, insideWord(r.Verdict), r.ID)
	if r.Verdict != probe.Blocked {
		fmt.Fprintf(w, "%15s %s\n", "", r.Inside)
	}
}

func insideWord(v probe.Verdict) string {
	switch v {
	case probe.Escaped:
		return "SUCCEEDS"
	case probe.Untried:
		return "-       "
	}
	return "fails   "
}

func printProbed(a *cli.App, p probed) error {
	for _, warning := range p.Warnings {
		if !strings.Contains(warning, filepath.Join(os.TempDir(), "gander-probe-")) { // about the probe's own project
			fmt.Fprintln(a.Out, "warning:", warning)
		}
	}
	_, err := fmt.Fprintf(a.Out, "\n%s: %s\n%d blocked that succeed outside, %d got out, %d prove nothing here because they fail outside, too, %d could not be tried\n",
		p.Driver, p.Isolation, p.Blocked, p.Escaped, p.Unproven, p.Untried)
	return err
}

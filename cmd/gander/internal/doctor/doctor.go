// Package doctor checks what works on this machine and says what to do about the rest.
package doctor

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/drivers/local"
)

// The states of a check.
const (
	CheckOK   = "ok"
	checkWarn = "warn" // works, with less than people may expect
	checkFail = "fail" // needed, and does not work
	checkSkip = "skip" // does not work and is not needed here
)

// A check is one thing gander needs, tried for real. Its id never changes.
type Check struct {
	ID    string `json:"id"`
	State string `json:"state"`
	What  string `json:"what"`
	// Next is what to do about it; empty when it works.
	Next string `json:"next,omitempty"`
	// Fixed is whether --fix has changed something for it.
	Fixed bool `json:"fixed,omitempty"`

	// fix does what is safe about it, and again makes the check once more; nil
	// where a person has to decide.
	fix   func(context.Context) error
	again func(context.Context) Check
}

// failedCheck is a check that did not hold.
func failedCheck(id string, err error, next string) Check {
	return Check{ID: id, State: checkFail, What: cli.MessageOf(err), Next: next}
}

// The ids of the checks, in their order. Scripts know them.
const (
	checkConfig    = "config"
	checkHome      = "home"
	checkPrivate   = "home.private"
	checkSessions  = "home.sessions"
	checkRoom      = "home.room"
	checkTemp      = "tmp.room"
	CheckKernel    = "kernel"
	checkStart     = "sandbox.start"
	checkProject   = "sandbox.project"
	checkFiles     = "sandbox.files"
	checkClosed    = "sandbox.closed" // of another driver than the chosen one with its name
	checkNetwork   = "sandbox.network"
	checkKill      = "sandbox.kill"
	checkEnd       = "sandbox.end"
	checkTeam      = "agents"
	checkSkills    = "skills"
	checkAgent     = "agent." // and the agent's name
	checkVersion   = ".version"
	checkModel     = "model." // and the agent's name
	checkClock     = "clock"
	checkDaemon    = "docker.daemon"
	checkImage     = "docker.image." // and the agent's name
	checkRegistry  = "registry.npm"
	checkServe     = "serve"
	checkClients   = "clients"
	checkLeftovers = "leftovers"
)

const (
	doctorTimeout    = 5 * time.Minute
	reportIt         = "please report this with the output of gander doctor --json --log-level debug"
	standInModelName = "stand-in"
)

// doctorFlags are the flags of gander doctor.
type doctorFlags struct{ asJSON, fix bool }

// Command returns the command gander doctor.
func Command(a *cli.App) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "try what gander needs, and say what to do about the rest",
		Long: `doctor runs what each feature needs instead of looking for it: commands in a sandbox
that try to get out, files they must not see, an agent, a model call, the daemon and
its images. Each line has a state and an id that never changes. The states are ok,
warn (works with less than you may expect), fail, and skip (does not work and is not
needed here). Exit code 1 when something needed does not work.

With --fix it does what is safe: it clears away what a killed gander left, makes its
files private, installs missing agents and builds missing or old images.`,
		Example:     "  gander doctor\n  gander doctor --fix\n  gander doctor --json | jq '.checks[] | select(.state != \"ok\")'",
		Args:        cli.NoArgs,
		Annotations: cli.Unconfigured(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return doctor(cmd.Context(), a, f) },
	}
	cli.JSONFlag(cmd, &f.asJSON)
	cmd.Flags().StringVar(&a.Flags.Sandbox, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	a.WeakerFlag(cmd)
	cli.CompleteFlag(cmd, "sandbox", cli.SandboxChoices()...)
	cmd.Flags().BoolVar(&f.fix, "fix", false, "do what is safe about what does not work")
	return cmd
}

// doctor makes the checks, and prints each as it is done.
func doctor(ctx context.Context, a *cli.App, f doctorFlags) error {
	timeout := doctorTimeout
	if f.fix {
		timeout *= 6 // images take their time
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	var checks []Check
	failed := 0
	examine(ctx, a, func(c Check) {
		if f.fix {
			c = mend(ctx, a, c, !f.asJSON)
		}
		checks = append(checks, c)
		if c.State == checkFail {
			failed++
		}
		if !f.asJSON {
			printCheck(a, c)
		}
	})
	if f.asJSON {
		if err := a.PrintJSON(map[string]any{"version": cli.Version, "checks": withoutSecrets(a, checks)}); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed > 0 {
		return &cli.ExitError{Code: cli.ExitFailed, Err: fmt.Errorf("%d of %d checks failed%s", failed, len(checks), fixable(checks))}
	}
	return nil
}

// fixable says whether --fix would help.
func fixable(checks []Check) string {
	for _, c := range checks {
		if c.fix != nil && !c.Fixed && c.State != CheckOK {
			return "; gander doctor --fix does what is safe about them"
		}
	}
	return ""
}

// mend does what is safe about a check, and makes it again.
func mend(ctx context.Context, a *cli.App, c Check, show bool) Check {
	if c.fix == nil || c.State == CheckOK {
		return c
	}
	if show {
		printCheck(a, c)
	}
	if err := c.fix(ctx); err != nil {
		c.What, c.Next = c.What+"; and --fix could not help: "+cli.MessageOf(err), "see the sentence before"
		return c
	}
	c = c.again(ctx)
	c.Fixed = true
	return c
}

// withoutSecrets hides what must not be printed.
func withoutSecrets(a *cli.App, checks []Check) []Check {
	for i := range checks {
		checks[i].What, checks[i].Next = a.Secrets.HideIn(checks[i].What), a.Secrets.HideIn(checks[i].Next)
	}
	return checks
}

func printCheck(a *cli.App, c Check) {
	what := a.Secrets.HideIn(cli.Printable(c.What)) // an agent may have said it
	if c.Fixed {
		what = "(fixed) " + what
	}
	fmt.Fprintf(a.Out, "%s  %-22s  %s\n", colored(a, fmt.Sprintf("%-4s", c.State), c.State), c.ID, paragraph(a, what))
	if c.Next != "" {
		fmt.Fprintf(a.Out, "%30s%s\n", "", paragraph(a, "→ "+a.Secrets.HideIn(cli.Printable(c.Next))))
	}
}

// textIndent is where the text of a check begins.
const textIndent = 30

// paragraph is a text of several lines on one; where a person looks at it, on as
// many as fit beside the ids.
func paragraph(a *cli.App, s string) string {
	width := cli.WidthOf(a.Out) - textIndent
	if !cli.IsTerminal(a.Out) || width < 30 {
		width = len(s)
	}
	return wrap(s, width, textIndent)
}

// wrap breaks a text between words, the further lines indented.
func wrap(s string, width, indent int) string {
	var out strings.Builder
	column := 0
	for i, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	return out.String()
}

// colored colours a word by the state of a check, where a person looks at it.
func colored(a *cli.App, word, state string) string {
	code := map[string]string{CheckOK: "32", checkWarn: "33", checkFail: "31", checkSkip: "2"}[state]
	if !cli.IsTerminal(a.Out) || cli.Variable(a.Environ, "NO_COLOR") != "" || cli.Variable(a.Environ, "TERM") == "dumb" {
		return word
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}

// unneeded makes a failure of an agent that is only there, and not asked unless
// somebody chooses it, a warning.
func unneeded(a *cli.App, agent string, c Check) Check {
	if c.State == checkFail && agent != a.Config.Agent {
		c.State = checkWarn
	}
	return c
}

// examine makes the checks; report gets each as it is done.
func examine(ctx context.Context, a *cli.App, report func(Check)) {
	c := examineConfig(a)
	report(c)
	if c.State == checkFail {
		return // nothing else would say anything about this gander
	}
	report(examineHome(a))
	report(examinePrivate(a))
	report(examineSessions(ctx, a))
	report(examineRoom(a))
	report(examineTemp(a))
	report(examineKernel())
	examineSandbox(ctx, a, report)
	if chosen := wire.ChosenDriver(a.Config.Sandbox.Driver, runtime.GOOS); chosen != local.Name && runtime.GOOS == "linux" {
		report(examineClosed(ctx, a, local.Name, nil))
	}
	examineTeam(a, report)
	report(examineSkills(a))
	for _, name := range examinedAgents(a) {
		c := show.During(a, "starting "+name, 5*time.Second, func() Check { return examineAgent(ctx, a, name) })
		report(unneeded(a, name, c))
		if c.State == CheckOK {
			examineVersion(ctx, a, name, report)
		}
		c = show.During(a, "asking the model of "+name, 0, func() Check { return examineModel(ctx, a, name) })
		report(unneeded(a, name, c))
	}
	report(show.During(a, "comparing clocks", 0, func() Check { return examineClock(ctx, a) }))
	examineDocker(ctx, a, report)
	report(show.During(a, "asking npm's registry", 3*time.Second, func() Check { return examineRegistry(ctx, a) }))
	report(examineServe(ctx, a))
	report(examineClients(ctx, a))
	report(examineLeftovers(ctx, a))
}

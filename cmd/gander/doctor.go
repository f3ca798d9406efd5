package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The states of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn" // works, with less than people may expect
	checkFail = "fail" // needed, and does not work
	checkSkip = "skip" // does not work and is not needed here
)

// A check is one thing gander needs, tried for real. Its id never changes.
type check struct {
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
	again func(context.Context) check
}

// failedCheck is a check that did not hold.
func failedCheck(id string, err error, next string) check {
	return check{ID: id, State: checkFail, What: messageOf(err), Next: next}
}

// The ids of the checks, in their order. Scripts know them.
const (
	checkConfig    = "config"
	checkHome      = "home"
	checkPrivate   = "home.private"
	checkSessions  = "home.sessions"
	checkRoom      = "home.room"
	checkTemp      = "tmp.room"
	checkKernel    = "kernel"
	checkStart     = "sandbox.start"
	checkProject   = "sandbox.project"
	checkFiles     = "sandbox.files"
	checkClosed    = "sandbox.closed" // of another driver than the chosen one with its name
	checkNetwork   = "sandbox.network"
	checkKill      = "sandbox.kill"
	checkEnd       = "sandbox.end"
	checkAgent     = "agent." // and the agent's name
	checkVersion   = ".version"
	checkModel     = "model." // and the agent's name
	checkClock     = "clock"
	checkDaemon    = "docker.daemon"
	checkImage     = "docker.image." // and the agent's name
	checkRegistry  = "registry.npm"
	checkServe     = "serve"
	checkLeftovers = "leftovers"
)

const (
	doctorTimeout    = 5 * time.Minute
	reportIt         = "please report this with the output of gander doctor --json --log-level debug"
	temporaryAdvice  = "make room for temporary files, or name another directory in TMPDIR"
	homeAdvice       = "make room, give yourself the directory, or choose another one with --home or GANDER_HOME"
	standInModelName = "stand-in"
)

// doctorFlags are the flags of gander doctor.
type doctorFlags struct{ asJSON, fix bool }

func (a *app) doctorCommand() *cobra.Command {
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
		Args:        noArgs,
		Annotations: unconfigured(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), f) },
	}
	jsonFlag(cmd, &f.asJSON)
	cmd.Flags().StringVar(&a.flags.Sandbox, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	a.weakerFlag(cmd)
	completeFlag(cmd, "sandbox", sandboxChoices()...)
	cmd.Flags().BoolVar(&f.fix, "fix", false, "do what is safe about what does not work")
	return cmd
}

// doctor makes the checks, and prints each as it is done.
func (a *app) doctor(ctx context.Context, f doctorFlags) error {
	timeout := doctorTimeout
	if f.fix {
		timeout *= 6 // images take their time
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	var checks []check
	failed := 0
	a.examine(ctx, func(c check) {
		if f.fix {
			c = a.mend(ctx, c, !f.asJSON)
		}
		checks = append(checks, c)
		if c.State == checkFail {
			failed++
		}
		if !f.asJSON {
			a.printCheck(c)
		}
	})
	if f.asJSON {
		if err := a.printJSON(map[string]any{"version": version, "checks": a.withoutSecrets(checks)}); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d of %d checks failed%s", failed, len(checks), fixable(checks))}
	}
	return nil
}

// fixable says whether --fix would help.
func fixable(checks []check) string {
	for _, c := range checks {
		if c.fix != nil && !c.Fixed && c.State != checkOK {
			return "; gander doctor --fix does what is safe about them"
		}
	}
	return ""
}

// mend does what is safe about a check, and makes it again.
func (a *app) mend(ctx context.Context, c check, show bool) check {
	if c.fix == nil || c.State == checkOK {
		return c
	}
	if show {
		a.printCheck(c)
	}
	if err := c.fix(ctx); err != nil {
		c.What, c.Next = c.What+"; and --fix could not help: "+messageOf(err), "see the sentence before"
		return c
	}
	c = c.again(ctx)
	c.Fixed = true
	return c
}

// withoutSecrets hides what must not be printed.
func (a *app) withoutSecrets(checks []check) []check {
	for i := range checks {
		checks[i].What, checks[i].Next = a.secrets.hideIn(checks[i].What), a.secrets.hideIn(checks[i].Next)
	}
	return checks
}

func (a *app) printCheck(c check) {
	what := a.secrets.hideIn(printable(c.What)) // an agent may have said it
	if c.Fixed {
		what = "(fixed) " + what
	}
	fmt.Fprintf(a.out, "%s  %-22s  %s\n", a.colored(fmt.Sprintf("%-4s", c.State), c.State), c.ID, a.paragraph(what))
	if c.Next != "" {
		fmt.Fprintf(a.out, "%30s%s\n", "", a.paragraph("→ "+a.secrets.hideIn(printable(c.Next))))
	}
}

// textIndent is where the text of a check begins.
const textIndent = 30

// paragraph is a text of several lines on one; where a person looks at it, on as
// many as fit beside the ids.
func (a *app) paragraph(s string) string {
	width := widthOf(a.out) - textIndent
	if !isTerminal(a.out) || width < 30 {
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
func (a *app) colored(word, state string) string {
	code := map[string]string{checkOK: "32", checkWarn: "33", checkFail: "31", checkSkip: "2"}[state]
	if !isTerminal(a.out) || variable(a.environ, "NO_COLOR") != "" || variable(a.environ, "TERM") == "dumb" {
		return word
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}

// unneeded makes a failure of an agent that is only there, and not asked unless
// somebody chooses it, a warning.
func (a *app) unneeded(agent string, c check) check {
	if c.State == checkFail && agent != a.cfg.Agent {
		c.State = checkWarn
	}
	return c
}

// examine makes the checks; report gets each as it is done.
func (a *app) examine(ctx context.Context, report func(check)) {
	c := a.examineConfig()
	report(c)
	if c.State == checkFail {
		return // nothing else would say anything about this gander
	}
	report(a.examineHome())
	report(a.examinePrivate())
	report(a.examineSessions(ctx))
	report(a.examineRoom())
	report(a.examineTemp())
	report(examineKernel())
	a.examineSandbox(ctx, report)
	if chosen := chosenDriver(a.cfg.Sandbox.Driver, runtime.GOOS); chosen != "local" && runtime.GOOS == "linux" {
		report(a.examineClosed(ctx, "local", nil))
	}
	for _, name := range a.examinedAgents() {
		c := a.during("starting "+name, func() check { return a.examineAgent(ctx, name) })
		report(a.unneeded(name, c))
		if c.State == checkOK {
			a.examineVersion(ctx, name, report)
		}
		c = a.during("asking the model of "+name, func() check { return a.examineModel(ctx, name) })
		report(a.unneeded(name, c))
	}
	report(a.during("comparing clocks", func() check { return a.examineClock(ctx) }))
	a.examineDocker(ctx, report)
	report(a.during("asking npm's registry", func() check { return a.examineRegistry(ctx) }))
	report(a.examineServe(ctx))
	report(a.examineLeftovers(ctx))
}

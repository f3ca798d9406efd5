// Package scenariocmd runs scenarios: files that say what a team of agents is asked, and what is to be
// true then. Agents and sandboxes are real; models are stand-ins, or real ones.
package scenariocmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/natefinch/atomic"
	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/conformance/harness"
)

// The values of --mode.
const (
	modeScripted = "scripted"
	modeLive     = "live"
)

// Command returns the command gander scenario.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scenario",
		Short: "run scenarios, by which a team of agents is tested",
	}
	cmd.AddCommand(run(a))
	cli.Group(cmd)
	return cmd
}

// A runner runs scenarios as the flags say.
type runner struct {
	app            *cli.App
	files          []string
	mode, sandbox  string
	repeat, passes int
	keep, json     bool
	junit          string
}

func run(a *cli.App) *cobra.Command {
	r := &runner{app: a}
	cmd := &cobra.Command{
		Use:   "run FILE|DIR…",
		Short: "run scenarios and hold them against what they assert",
		Long: `run plays each scenario in a home of its own, with a copy of its project: real agents in
real sandboxes. In the mode "scripted" models are stand-ins on this machine's loopback
that say what the file says: no key and no network is needed. In the mode "live" they
are those of your configuration. Of a folder all files *.json in it are run.

The exit code is 0 when all assertions hold, 1 when one does not, 2 when a file is wrong
(nothing is run then), 3 when the time of a scenario was over and all others held.`,
		Example: `  gander scenario run scenarios/fix-and-review.json
  gander scenario run scenarios --junit report.xml
  gander scenario run scenarios --mode live --repeat 5 --min-passes 4`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.run(cmd.Context(), append(slices.Clone(r.files), args...), cmd.Flags().Changed("min-passes"))
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&r.files, "file", nil, "a scenario, or a folder of them, as an argument is")
	fl.StringVar(&r.mode, "mode", "", "scripted or live (default: scripted where the file has a script)")
	fl.StringVar(&r.sandbox, "sandbox", "", "auto, local, docker or off (default: the configuration's, else auto)")
	fl.IntVar(&r.repeat, "repeat", 1, "run each scenario so often")
	fl.IntVar(&r.passes, "min-passes", 0, "how many of the runs have to hold (default: the file's minPasses, else all)")
	fl.BoolVar(&r.keep, "keep", false, "keep the directory of each run, with its project, transcripts and traces")
	fl.StringVar(&r.junit, "junit", "", "write the report as JUnit's XML to this file, too")
	cli.JSONFlag(cmd, &r.json)
	cli.CompleteFlag(cmd, "mode", modeScripted, modeLive)
	cli.CompleteFlag(cmd, "sandbox", cli.SandboxChoices()...)
	return cmd
}

// isLive reports whether a scenario asks real models.
func (r *runner) isLive(s *spec) bool {
	return r.mode == modeLive || r.mode == "" && !s.isScripted()
}

// progress tells on stderr what happens.
func (r *runner) progress(format string, args ...any) {
	fmt.Fprintln(r.app.Err, cli.Printable(fmt.Sprintf(format, args...)))
}

func (r *runner) run(ctx context.Context, args []string, sets bool) error {
	switch {
	case len(args) == 0:
		return cli.UsageError("name a scenario or a folder of them, as in: gander scenario run scenarios")
	case !slices.Contains([]string{"", modeScripted, modeLive}, r.mode):
		return cli.UsageError("--mode %q: choose %s or %s", r.mode, modeScripted, modeLive)
	case r.repeat < 1 || r.repeat > 1000:
		return cli.UsageError("--repeat %d: choose 1 to 1000", r.repeat)
	case sets && (r.passes < 1 || r.passes > r.repeat):
		return cli.UsageError("--min-passes %d: choose 1 to %d, which is how often each scenario is run (--repeat)", r.passes, r.repeat)
	}
	specs, err := r.read(args)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	var all []played
	for i, s := range specs {
		p, err := r.playRuns(ctx, s, fmt.Sprintf("%d of %d", i+1, len(specs)))
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	if err := r.report(all); err != nil {
		return err
	}
	code := cli.ExitDone
	for _, p := range all {
		switch {
		case p.Success:
		case p.TimedOut && code == cli.ExitDone:
			code = cli.ExitTimeout
		case !p.TimedOut:
			code = cli.ExitFailed
		}
	}
	if code != cli.ExitDone {
		return &cli.ExitError{Code: code}
	}
	return nil
}

// read reads all files, so that nothing runs when one is wrong.
func (r *runner) read(args []string) ([]*spec, error) {
	var specs []*spec
	var errs []error
	for _, arg := range args {
		files := []string{arg}
		if info, err := os.Stat(arg); err == nil && info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(arg, "*.json")); err != nil || len(files) == 0 {
				errs = append(errs, fmt.Errorf("%s: there is no scenario in it, a file *.json", arg))
			}
		}
		for _, file := range files {
			s, err := readSpec(file, r.app.Config.Orchestrator.Limits)
			if err == nil && r.mode == modeScripted && !s.isScripted() {
				err = fmt.Errorf("%s: there is no script in it (scripted); run it with --mode live", file)
			}
			specs, errs = append(specs, s), append(errs, err)
		}
	}
	return specs, errors.Join(errs...)
}

// A played scenario is one with all its runs.
type played struct {
	Name      string  `json:"scenarioName"`
	File      string  `json:"file"`
	Mode      string  `json:"mode"`
	Success   bool    `json:"success"`
	Passes    int     `json:"passes"`
	MinPasses int     `json:"minPasses"`
	TimedOut  bool    `json:"timedOut,omitempty"`
	Checks    []check `json:"checks"`
	// The last run's own facts, and those of all runs.
	*outcome
	Runs []*outcome `json:"runs,omitempty"`
}

// A check is one assertion over all runs of a scenario.
type check struct {
	ID       string   `json:"id"`
	State    string   `json:"state"`
	Held     int      `json:"held"`
	Problems []string `json:"problems,omitempty"`
	took     time.Duration
}

// playRuns runs a scenario as often as it is to be run.
func (r *runner) playRuns(ctx context.Context, s *spec, place string) (played, error) {
	p := played{Name: s.Name, File: s.file, Mode: modeScripted, MinPasses: r.repeat}
	if r.isLive(s) {
		p.Mode = modeLive
	}
	if s.MinPasses > 0 {
		p.MinPasses = min(int(s.MinPasses), r.repeat)
	}
	if r.passes > 0 {
		p.MinPasses = r.passes
	}
	var runs []*outcome
	late := 0
	for n := range r.repeat {
		if r.repeat > 1 {
			r.progress("%s (%s), run %d of %d …", s.Name, place, n+1, r.repeat)
		} else {
			r.progress("%s (%s) …", s.Name, place)
		}
		o, err := r.runOnce(ctx, s)
		if err != nil {
			return p, err
		}
		if o.Success {
			p.Passes++
		} else if o.TimedOut {
			late++
		}
		runs = append(runs, o)
		p.add(o, n)
	}
	p.Success = p.Passes >= p.MinPasses
	p.TimedOut = !p.Success && late == r.repeat-p.Passes
	p.outcome = runs[len(runs)-1]
	if r.repeat > 1 {
		p.Runs = runs
	}
	if r.repeat > 1 {
		p.Checks = append(p.Checks, check{ID: p.slug() + ".passes", Held: p.Passes})
	}
	for i := range p.Checks {
		if c := &p.Checks[i]; c.State == "" && c.Held >= p.MinPasses {
			c.State = string(harness.Pass)
		} else if c.State == "" {
			c.State = string(harness.Fail)
		}
	}
	return p, nil
}

// slug returns the scenario's name as ids have it.
func (p *played) slug() string {
	return strings.Trim(notInSlug.ReplaceAllString(p.Name, "-"), "-")
}

var notInSlug = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// add counts what held in the nth run.
func (p *played) add(o *outcome, n int) {
	for i, v := range o.judge {
		if i == len(p.Checks) {
			p.Checks = append(p.Checks, check{ID: p.slug() + "." + v.name})
		}
		c := &p.Checks[i]
		c.took += time.Duration(o.DurationMS) * time.Millisecond / time.Duration(len(o.judge))
		switch {
		case v.skip != "":
			c.State, c.Problems = string(harness.NotApplicable), []string{v.skip}
		case v.why == "":
			c.Held++
		default:
			c.Problems = append(c.Problems, fmt.Sprintf("run %d: %s", n+1, v.why))
		}
	}
}

// report prints what came of all scenarios.
func (r *runner) report(all []played) error {
	report := &harness.Report{Protocol: "scenario"}
	for _, p := range all {
		for _, c := range p.Checks {
			text := fmt.Sprintf("held in %d of %d", c.Held, max(len(p.Runs), 1))
			report.Add(harness.Result{Check: harness.Check{ID: c.ID, Text: text}, State: harness.State(c.State), Problems: c.Problems, Took: c.took})
		}
	}
	if r.junit != "" {
		var xml bytes.Buffer
		err := report.WriteJUnit(&xml)
		if err == nil {
			err = atomic.WriteFile(r.junit, &xml)
		}
		if err != nil {
			return fmt.Errorf("writing JUnit's XML: %w; name another file with --junit", err)
		}
	}
	if r.json {
		good := !slices.ContainsFunc(all, func(p played) bool { return !p.Success })
		return r.app.PrintJSON(map[string]any{"success": good, "summary": report.Summary(), "scenarios": all})
	}
	if err := report.WriteTable(r.app.Out); err != nil {
		return err
	}
	for _, p := range all {
		if p.Directory != "" {
			fmt.Fprintf(r.app.Out, "%s: kept in %s, trace %s\n", cli.Printable(p.Name), p.Directory, p.TracePath)
		}
	}
	return nil
}

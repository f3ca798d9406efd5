package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/conformance/harness"
	"gander.dev/gander/conformance/model"
)

// Options say what is checked, and how. Command is required.
type Options struct {
	// Command starts the agent. {dir} in an argument is replaced by the directory of
	// the run, {home} by the agent's home, {modelUrl} and {modelKey} by what leads to
	// the model.
	Command []string
	// Environ is the environment of the agent. The harness adds a home and the
	// variables by which known agents find the model; Env, with the placeholders of
	// Command, wins over both.
	Environ, Env []string
	// AskEnv is added, with the same placeholders, where the agent is to ask before
	// it does something.
	AskEnv []string
	// MCPServer is a command of an MCP server with tools; without one it is not
	// checked that an agent connects to the client's servers.
	MCPServer []string
	// Only limits the run to these ids, or areas (the part before the dot).
	Only []string
	// Timeout bounds each wait; zero means a minute.
	Timeout time.Duration
	// Dir is where sessions work; a sandbox has to see it under the same name. Empty
	// means a new temporary directory.
	Dir string
	// Expected maps ids of checks that are expected to fail to the reason.
	Expected map[string]string
	// Each is called after every check; it may be nil.
	Each func(harness.Result)
	// Log may be nil.
	Log *slog.Logger
}

const (
	defaultTimeout = time.Minute
	modelName      = "gpt-4o" // a name for which agents believe that images can be seen
)

// A runner is one run of the checks.
type runner struct {
	o       Options
	dir     string // real, of the run
	home    string
	mark    string
	marks   int
	tags    int
	model   *model.Server
	url     string // of the model, without /v1
	grammar grammar
	agents  []*agent
	shared  *session // of checks that need any
	asking  *agent
	offered []update // what an agent tells that is offered everything
	facts   facts
	found   *findings
	report  harness.Report
}

// Run checks an agent. The error says that it could not be checked at all; what
// the checks found is in the report. When ctx ends, the report has what was checked
// until then.
func Run(ctx context.Context, o Options) (*harness.Report, error) {
	selected, err := selectChecks(o.Only)
	if err != nil {
		return nil, err
	}
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	defer r.cleanUp()
	if err := r.survey(ctx); err != nil {
		return nil, err
	}
	r.report.Protocol, r.report.Command = "acp", o.Command
	r.report.About = map[string]string{"agent": r.facts.name}
	for _, c := range selected {
		res := r.judge(ctx, c)
		if ctx.Err() != nil {
			return &r.report, ctx.Err()
		}
		r.report.Add(res)
		if r.o.Each != nil {
			r.o.Each(res)
		}
	}
	return &r.report, nil
}

func newRunner(o Options) (*runner, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("no command to check")
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dir != "" {
		abs, err := filepath.Abs(o.Dir)
		if err != nil {
			return nil, err
		}
		o.Dir = abs
	}
	dir, err := os.MkdirTemp(o.Dir, "conformance-")
	if err != nil {
		return nil, fmt.Errorf("making the directory of the checks: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	r := &runner{
		o: o, dir: dir, home: filepath.Join(dir, "home"), grammar: readShapes(shapes), found: newFindings(),
		mark:  fmt.Sprintf("gander_conformance_%d_%d", os.Getpid(), time.Now().UnixNano()),
		model: model.New(model.Options{Key: modelKey, Keep: 2000}),
	}
	if r.url, err = r.model.Start(); err != nil {
		r.cleanUp()
		return nil, err
	}
	if err := r.makeHome(); err != nil {
		r.cleanUp()
		return nil, fmt.Errorf("making a home for the agent: %w", err)
	}
	return r, nil
}

func selectChecks(only []string) ([]Check, error) {
	all := Checks()
	if len(only) == 0 {
		return all, nil
	}
	for _, o := range only {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.ID == o || c.area() == o }) {
			return nil, fmt.Errorf("there is no check %q; --list prints them", o)
		}
	}
	return slices.DeleteFunc(all, func(c Check) bool {
		return !slices.Contains(only, c.ID) && !slices.Contains(only, c.area())
	}), nil
}

// facts are what the agent showed of itself when the run began.
type facts struct {
	broken      string // why there are none
	name        string
	initialized json.RawMessage
	loads       bool
	session     map[string]bool // sessionCapabilities
	prompt      map[string]bool // promptCapabilities
	authMethods []struct{ ID, Type string }
	modes       modes
	options     []option
	tools       []string // that the model was offered
	noModel     string   // why no prompt reaches the model
	noShell     string   // why no command can be run
	noAsking    string   // why the agent does not ask
}

// survey learns what the agent is. Only a command that cannot be started is an
// error: an agent that answers nothing is judged by the checks.
func (r *runner) survey(ctx context.Context) error {
	a, err := r.start(launch{})
	if err != nil {
		return err
	}
	res := r.judge(ctx, Check{ID: "survey.agent", run: func(p *probe) { p.learn(a) }})
	if res.State != harness.Pass {
		r.facts.broken = strings.Join(res.Problems, "; ")
		a.Discard()
		return nil
	}
	res = r.judge(ctx, Check{ID: "survey.turn", run: func(p *probe) { p.learnTurn() }})
	if res.State != harness.Pass {
		r.facts.noModel = "no turn works: " + strings.Join(res.Problems, "; ")
		r.facts.noShell, r.facts.noAsking = r.facts.noModel, r.facts.noModel
		return nil
	}
	if r.facts.noShell != "" {
		r.facts.noAsking = r.facts.noShell
		return nil
	}
	res = r.judge(ctx, Check{ID: "survey.asking", run: func(p *probe) { p.learnAsking() }})
	if res.State != harness.Pass {
		r.facts.noAsking = "the agent runs a command without asking: " + strings.Join(res.Problems, "; ")
	}
	return nil
}

// cleanUp ends what is left and removes what was made.
func (r *runner) cleanUp() {
	for _, a := range r.agents {
		a.Discard()
	}
	harness.KillMarked(r.mark)
	_ = r.model.Close()
	if err := removeAll(r.dir); err != nil {
		r.o.Log.Warn("removing the directory of the checks", "err", err)
	}
}

// judge runs one check.
func (r *runner) judge(ctx context.Context, c Check) harness.Result {
	begun := time.Now()
	res := harness.Result{Check: c.described()}
	if why := r.inapplicable(c); why != "" {
		res.State, res.Problems = harness.NotApplicable, []string{why}
		return res.Expect(r.o.Expected)
	}
	p := &probe{runner: r, ctx: ctx, check: c, dir: filepath.Join(r.dir, strings.ReplaceAll(c.ID, ".", "-"))}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		p.problems = append(p.problems, err.Error())
	} else {
		p.perform()
	}
	p.finish()
	res.State, res.Problems, res.Took = p.state(), p.problems, time.Since(begun)
	return res.Expect(r.o.Expected)
}

// inapplicable says why a check cannot be made.
func (r *runner) inapplicable(c Check) string {
	if r.facts.broken != "" {
		return "" // the checks say what is wrong
	}
	for _, n := range c.needs {
		if why := r.lacks(n); why != "" {
			return why
		}
	}
	return ""
}

// removeAll removes a directory although parts of it may be unwritable.
func removeAll(dir string) error {
	_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(name, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

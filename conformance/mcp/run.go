package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/conformance/harness"
)

// Options say what is checked, and how. Command is required.
type Options struct {
	// Command starts the server. {dir} in an argument is replaced by the directory
	// in which it is to work, so that a container or sandbox can be told.
	Command []string
	// Profile is [Classic] or [Current]; empty means classic.
	Profile string
	// Platform is the operating system that the server is built for: linux,
	// darwin, windows. Empty means this one. A windows server on another system
	// runs through wine: its Z: drive is the root of the file system.
	Platform string
	// Only limits the run to these ids, or areas (the part before the dot).
	Only []string
	// Timeout bounds each wait; zero means 30 seconds.
	Timeout time.Duration
	// Dir is where checks make their files. It has to be visible to the server
	// under the same name. Empty means a new temporary directory.
	Dir string
	// Environ is the environment of the server; the harness adds to it.
	Environ []string
	// Expected maps ids of checks that are expected to fail to the reason.
	Expected map[string]string
	// Each is called after every check; it may be nil.
	Each func(Result)
	// Log may be nil.
	Log *slog.Logger
}

const defaultTimeout = 30 * time.Second

// A runner is one run of the checks.
type runner struct {
	o       Options
	dir     string
	mark    string
	marks   int
	shared  *server
	servers []*server
	facts   facts
	report  Report
}

// Run checks a server. The error says that it could not be checked at all; what
// the checks found is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	defer r.cleanUp()
	selected, err := selectChecks(r.o.Only)
	if err != nil {
		return nil, err
	}
	if err := r.survey(ctx); err != nil {
		return nil, err
	}
	r.report.Protocol, r.report.Command = "mcp", r.o.Command
	r.report.About = map[string]string{"profile": r.o.Profile, "platform": r.o.Platform}
	for _, c := range selected {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		res := r.judge(ctx, c)
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
	if o.Profile == "" {
		o.Profile = Classic
	}
	if o.Profile != Classic && o.Profile != Current {
		return nil, fmt.Errorf("there is no profile %q; choose %s or %s", o.Profile, Classic, Current)
	}
	if o.Platform == "" {
		o.Platform = runtime.GOOS
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := workspace(o.Dir)
	if err != nil {
		return nil, err
	}
	return &runner{o: o, dir: dir, mark: fmt.Sprintf("gander_conformance_%d_%d", os.Getpid(), time.Now().UnixNano())}, nil
}

// workspace is a new directory, under its real name.
func workspace(parent string) (string, error) {
	if parent != "" {
		abs, err := filepath.Abs(parent)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(abs, 0o755); err != nil {
			return "", fmt.Errorf("making the directory of the checks: %w", err)
		}
		parent = abs
	}
	dir, err := os.MkdirTemp(parent, "conformance-")
	if err != nil {
		return "", fmt.Errorf("making the directory of the checks: %w", err)
	}
	return filepath.EvalSymlinks(dir)
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

// facts are what the server said about itself when the run began.
type facts struct {
	broken       string // why there are none
	version      string
	serverInfo   json.RawMessage
	instructions string
	capabilities map[string]json.RawMessage
	tools        []tool
	// sees says that the server has the harness's environment, which it has not
	// when the command leads into a container or a sandbox.
	sees bool
	// dialect is the language of its shell.
	dialect dialect
}

// A tool is what tools/list says of one.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is nil where the results are text only.
	OutputSchema json.RawMessage `json:"outputSchema"`
}

func (f *facts) has(name string) bool { return f.tool(name) != nil }

func (f *facts) tool(name string) *tool {
	for i := range f.tools {
		if f.tools[i].Name == name {
			return &f.tools[i]
		}
	}
	return nil
}

// A launch says how to start a server.
type launch struct {
	dir string
	env []string // added
	// raw leaves the handshake to the check.
	raw bool
}

// start runs the command under test.
func (r *runner) start(l launch) (*server, error) {
	if l.dir == "" {
		l.dir = r.dir
	}
	r.marks++
	command := make([]string, len(r.o.Command))
	for i, a := range r.o.Command {
		command[i] = strings.ReplaceAll(a, "{dir}", l.dir)
	}
	peer, err := harness.Start(harness.Launch{
		Command: command, Dir: l.dir, Environ: slices.Concat(r.o.Environ, l.env), Mark: fmt.Sprintf("%s_s%d", r.mark, r.marks), Patience: r.o.Timeout,
	})
	if err != nil {
		return nil, err
	}
	s := &server{Peer: peer}
	r.servers = append(r.servers, s)
	return s, nil
}

// survey learns what the server offers. Only a command that cannot be started is
// an error: a server that answers nothing is judged by the checks.
func (r *runner) survey(ctx context.Context) error {
	s, err := r.start(launch{raw: true})
	if err != nil {
		return err
	}
	r.facts.dialect = dialectOf(r.o.Platform)
	res := r.judge(ctx, Check{ID: "survey", run: func(p *probe) {
		p.handshake(s, latestVersion)
		p.learn(s)
	}})
	if res.State != Pass {
		r.facts.broken = strings.Join(res.Problems, "; ")
		s.Discard()
		return nil
	}
	r.shared = s
	return nil
}

// cleanUp ends what is left and removes what was made.
func (r *runner) cleanUp() {
	for _, s := range r.servers {
		s.Discard()
	}
	harness.KillMarked(r.mark)
	if err := removeAll(r.dir); err != nil {
		r.o.Log.Warn("removing the directory of the checks", "err", err)
	}
}

// judge runs one check.
func (r *runner) judge(ctx context.Context, c Check) Result {
	begun := time.Now()
	res := Result{Check: c.described()}
	if why := r.inapplicable(c); why != "" {
		res.State, res.Problems = NotApplicable, []string{why}
		return res.Expect(r.o.Expected)
	}
	p := &probe{runner: r, ctx: ctx, check: c, dir: filepath.Join(r.dir, c.ID)}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		p.problems = append(p.problems, err.Error())
	} else {
		p.perform()
	}
	p.finish()
	res.State, res.Problems = p.state(), p.problems
	res.Took = time.Since(begun)
	return res.Expect(r.o.Expected)
}

// inapplicable says why a check cannot be made.
func (r *runner) inapplicable(c Check) string {
	switch {
	case c.ID == "survey":
		return ""
	case c.Profile != "" && c.Profile != r.o.Profile:
		return "for the profile " + c.Profile
	case c.Platform == "windows" && r.o.Platform != "windows", c.Platform == "unix" && r.o.Platform == "windows":
		return "for servers on " + c.Platform
	case r.facts.broken != "":
		return "" // lifecycle and tools say what is wrong
	}
	for _, name := range c.needs {
		if !r.facts.has(name) {
			return "the server has no tool " + name
		}
	}
	return ""
}

// removeAll removes a directory although checks made parts of it unwritable.
func removeAll(dir string) error {
	_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(name, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

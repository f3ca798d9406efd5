//go:build unix

package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gander.dev/gander/sandbox"
)

// timeLimit bounds an attempt; those that try often get more.
const timeLimit = 30 * time.Second

// searchPath is where attempts find programs.
const searchPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// maxSaid bounds what is kept of what an attempt prints, in bytes.
const maxSaid = 1 << 20

// Run makes a project, a sandbox of it, and tries the catalogue in it. It begins
// with ordinary work, because a sandbox in which nothing works blocks everything.
// Nothing of the caller's is touched, and nothing is left. An error means that the
// catalogue could not be tried; results that are not good are in the Report.
func Run(ctx context.Context, o Options) (*Report, error) {
	cases, err := o.chosen()
	if err != nil {
		return nil, err
	}
	if o.Rounds <= 0 {
		o.Rounds = defaultRounds
	}
	r := &run{o: o, report: &Report{}}
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	for i, c := range cases {
		if err := ctx.Err(); err != nil {
			return r.report, err
		}
		result, err := r.try(ctx, c, fmt.Sprintf("c%d", i))
		if err != nil {
			return r.report, fmt.Errorf("trying %s: %w", c.ID, err)
		}
		r.report.Results = append(r.report.Results, result)
		if o.Done != nil {
			o.Done(result)
		}
	}
	r.listenAgain()
	return r.report, nil
}

// listenAgain finds what listeners were told after their attempt had been judged.
func (r *run) listenAgain() {
	n := 0
	for i := range r.report.Results {
		result := &r.report.Results[i]
		if result.Outside == "" && result.Verdict == Untried {
			continue // it was not carried out
		}
		if n < len(r.marks) && r.bait.heard(r.marks[n]) {
			result.Verdict, result.Inside = Escaped, "a listener outside was told"
		}
		n++
	}
}

// run is one going through the catalogue.
type run struct {
	o      Options
	base   string // everything is in here
	secret string
	bait   *bait
	sb     sandbox.Sandbox
	shell  [2]string // outside, inside
	absent []string  // programs that the sandbox does not have
	marks  []string  // of the attempts inside, one for each result that was tried
	report *Report
}

// prepare makes the project, the bait and the sandbox, and tries ordinary work.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.base, err = os.MkdirTemp("", "gander-probe-"); err != nil {
		return fmt.Errorf("making a directory for the probe: %w", err)
	}
	if r.base, err = filepath.EvalSymlinks(r.base); err != nil {
		return err
	}
	r.secret = secretPrefix + strings.ToLower(rand.Text()) // git takes it for the name of a setting, too
	for _, d := range []string{"project", "out", "home", "outside", "outside/project", "outside/out", "tmp"} {
		if err := os.Mkdir(filepath.Join(r.base, d), 0o700); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Chmod(r.base, 0o755), forAll(r.dir("project")), forAll(r.dir("out")),
		os.WriteFile(r.dir("project/.gooseignore"), []byte(RulesFile), 0o644)); err != nil {
		return err
	}
	if r.shell[0] = r.o.Shell; r.shell[0] == "" {
		r.shell[0] = "sh"
		if _, err := exec.LookPath("bash"); err == nil {
			r.shell[0] = "bash"
		}
	}
	if err := errors.Join(r.commit(r.dir("project"), r.o.Owner), r.commit(r.dir("outside/project"), -1)); err != nil {
		return err
	}
	if r.o.Owner >= 0 && os.Geteuid() == 0 {
		if err := os.Chown(r.dir("project"), r.o.Owner, r.o.Owner); err != nil {
			return err
		}
	}
	if r.bait, err = newBait(r.base, r.secret, r.o.Executable); err != nil {
		return fmt.Errorf("laying bait: %w", err)
	}
	return r.open(ctx)
}

func (r *run) dir(name string) string { return filepath.Join(r.base, name) }

// open makes a sandbox, in place of the one before if there is one, and works in it.
func (r *run) open(ctx context.Context) error {
	sb, err := r.o.Create(ctx, sandbox.Spec{
		ID: "probe-" + strings.ToLower(rand.Text()[:8]), WorkingDir: r.dir("project"), Home: r.dir("home"),
		Mounts: []sandbox.Mount{{Path: r.dir("out"), Writable: true}}, Labels: map[string]string{"purpose": "probe"}, Rules: &sandbox.Rules{},
	})
	if err != nil {
		return err
	}
	if r.sb != nil {
		_ = r.sb.Close()
	}
	r.sb = sb
	info := sb.Info()
	r.report.Driver, r.report.Isolation, r.report.Warnings = info.Driver, info.Isolation, info.Warnings
	out, err := r.inside(ctx, []string{"sh", "-c", `echo alive > alive && cat alive && rm alive && echo works > "$0/alive" && cat "$0/alive" && test -x "$1" && command -v bash || :`, r.dir("out"), info.Executable}, r.dir("project"), nil, timeLimit)
	if err != nil || !bytes.HasPrefix(out, []byte("alive\nworks\n")) {
		return fmt.Errorf("ordinary work fails in the sandbox, so that nothing it blocks would prove anything: %q %w", out, err)
	}
	r.shell[1] = "sh"
	if bytes.Contains(out, []byte("bash\n")) {
		r.shell[1] = r.shell[0]
	}
	if err := r.look(ctx); err != nil {
		return err
	}
	return r.showCommitted(ctx)
}

// look finds out which programs the sandbox lacks.
func (r *run) look(ctx context.Context) error {
	var programs []string
	for _, c := range Catalogue() {
		for _, n := range c.Needs {
			if !filepath.IsAbs(n) && !slices.Contains(programs, n) {
				programs = append(programs, n)
			}
		}
	}
	out, err := r.inside(ctx, []string{"sh", "-c", `for p in ` + strings.Join(programs, " ") + `; do command -v $p >/dev/null || echo $p; done`}, r.dir("project"), nil, timeLimit)
	r.absent = strings.Fields(string(out))
	return err
}

func (r *run) close() {
	if r.sb != nil {
		_ = r.sb.Close()
	}
	if r.bait != nil {
		r.bait.close()
	}
	if r.base != "" {
		_ = filepath.WalkDir(r.base, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(p, 0o700) // whatever attempts made of it
			}
			return nil
		})
		_ = os.RemoveAll(r.base)
	}
}

// try runs a case outside and inside.
func (r *run) try(ctx context.Context, c Case, name string) (Result, error) {
	result := Result{ID: c.ID}
	if missing := r.missing(c); missing != "" {
		result.Verdict, result.Inside = Untried, missing
		return result, nil
	}
	outside, err := r.attempt(ctx, c, name, true)
	if err != nil {
		return result, err
	}
	began := time.Now()
	inside, err := r.attempt(ctx, c, name, false)
	if err != nil {
		return result, err
	}
	result.Took = time.Since(began)
	result.Outside, result.Inside = outside.what, inside.what
	switch {
	case inside.through:
		result.Verdict = Escaped
	case inside.untried:
		result.Verdict = Untried
	case !outside.through:
		result.Verdict = Unproven
	default:
		result.Verdict = Blocked
	}
	return result, nil
}

// missing says what a case needs and is not there.
func (r *run) missing(c Case) string {
	for _, n := range c.Needs {
		switch _, err := exec.LookPath(n); {
		case filepath.IsAbs(n):
			if _, err := os.Stat(n); err != nil {
				return "this machine has no " + n
			}
		case err != nil:
			return "this machine has no " + n
		case slices.Contains(r.absent, n):
			return "the sandbox has no " + n
		}
	}
	return ""
}

// outcome is what came of one attempt.
type outcome struct {
	through, untried bool
	what             string
}

// attempt carries a case out in a directory of its own and judges it.
func (r *run) attempt(ctx context.Context, c Case, name string, outside bool) (outcome, error) {
	root := r.base
	if outside {
		root = r.dir("outside")
	}
	dir, out, temporary := filepath.Join(root, "project", name), filepath.Join(root, "out", name), filepath.Join(r.base, "tmp", name)
	if err := errors.Join(Populate(dir, out, r.secret), os.MkdirAll(temporary, 0o700)); err != nil {
		return outcome{}, err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := r.bait.renew(); err != nil {
		return outcome{}, err
	}
	before := Contents(dir, out)
	facts := r.bait.facts
	facts.Mark, facts.Dir, facts.Out, facts.Project = "through-"+rand.Text(), dir, out, r.dir("project")
	facts.Outside, facts.Rounds, facts.Executable = outside, r.o.Rounds, r.o.Executable
	if !outside {
		facts.Executable = r.sb.Info().Executable
	}
	limit := timeLimit
	if c.races() {
		limit += raceTime
	}
	stop := func() error { return nil }
	if c.Host != "" {
		stop = r.meanwhile(c.Host, dir, temporary)
	}
	said, err := r.carryOut(ctx, c, facts, limit)
	var openErr error
	var startErr *startError
	if !outside && (errors.Is(err, sandbox.ErrGone) || errors.As(err, &startErr) && r.awaitEnd(ctx)) { // an attempt before this one ended it
		if openErr = r.open(ctx); openErr == nil {
			said, err = r.carryOut(ctx, c, facts, limit)
		}
	}
	hostErr := stop()
	switch {
	case ctx.Err() != nil: // what became of the attempt says nothing
		if outside {
			killAll(tag(facts))
		}
		return outcome{}, context.Cause(ctx)
	case openErr != nil:
		return outcome{}, fmt.Errorf("its sandbox has ended, and there is no other: %w", openErr)
	case hostErr != nil:
		return outcome{}, fmt.Errorf("the host's side: %w", hostErr)
	}
	judged := r.judge(c, facts, said, err)
	if c.Host == "" && changed(before, Contents(dir, out)) {
		judged = outcome{through: true, what: "a closed file has changed"}
	}
	if !outside {
		select {
		case <-r.sb.Done():
			judged.what += "; the sandbox ended"
			if err := r.open(ctx); err != nil {
				return outcome{}, fmt.Errorf("after %s ended it: %w", c.ID, err)
			}
		default:
		}
	}
	return judged, nil
}

// endTime is how long a sandbox takes to end that has begun to.
const endTime = 5 * time.Second

// awaitEnd waits for the end of a sandbox that may have begun to end, and reports whether it
// has ended.
func (r *run) awaitEnd(ctx context.Context) bool {
	select {
	case <-r.sb.Done():
		return true
	case <-time.After(endTime):
	case <-ctx.Done():
	}
	return false
}

// judge says what an attempt has come to by what it said and did.
func (r *run) judge(c Case, f Facts, said []byte, err error) outcome {
	left := survivors(tag(f))
	if f.Outside {
		// What comes later than the attempt's end counts for the control, which is
		// to succeed; of an escape it is seen at the end of all.
		for deadline := time.Now().Add(patienceOutside); c.late() && len(left) == 0 && !r.bait.heard(f.Mark) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			left = survivors(tag(f))
		}
		if len(left) > 0 || c.Stays {
			killAll(tag(f))
		}
	} else {
		r.marks = append(r.marks, f.Mark)
	}
	var startErr *startError
	switch {
	case errors.As(err, &startErr):
		return outcome{untried: true, what: startErr.Error()}
	case bytes.Contains(said, []byte(r.secret)):
		return outcome{through: true, what: "the closed content came out"}
	case bytes.Contains(said, []byte(f.Mark)):
		return outcome{through: true, what: "done"}
	case r.bait.heard(f.Mark):
		return outcome{through: true, what: "a listener outside was told"}
	case len(left) > 0 && (c.Stays || !f.Outside):
		return outcome{through: true, what: fmt.Sprintf("%d processes stay", len(left))}
	case !f.Outside && c.races() && !bytes.Contains(said, []byte(allRounds)):
		return outcome{untried: true, what: fmt.Sprintf("not all of its rounds were done: %s, %v", lastLine(said), err)}
	case err != nil:
		return outcome{what: err.Error()}
	}
	if f.Outside && c.Sh != "" {
		return outcome{what: "it fails"} // what a script came across outside is nobody's business
	}
	return outcome{what: lastLine(said)}
}

// patienceOutside is how long a control may take to show an effect. One that replaces
// itself all the time is easily missed by who looks through a busy machine's processes.
const patienceOutside = 30 * time.Second

// late says whether a case's effect may be seen only after its end.
func (c Case) late() bool {
	return c.Stays || strings.Contains(c.ID, "datagram") || strings.HasPrefix(c.Do, "owner-stream")
}

// races says whether a case tries for so many rounds as Options say, and counts only when it
// has done them all.
func (c Case) races() bool { return strings.HasPrefix(c.ID, Races+"/") }

// raceTime is how long its rounds may take, also when the host, or the other side, never gets
// to run.
const raceTime = 3 * time.Minute

// lastLine is the end of what was said, for people and without control characters.
func lastLine(said []byte) string {
	const most = 120
	line := bytes.TrimSpace(said)
	if i := bytes.LastIndexByte(line, '\n'); i >= 0 {
		line = line[i+1:]
	}
	if len(line) > most {
		line = line[:most]
	}
	return strings.Trim(fmt.Sprintf("%q", line), `"`)
}

// meanwhile lets the host act for Rounds at least, until the attempt has made as many, and
// then tells it to stop. The function that it returns, for when the attempt is over, waits
// for that.
func (r *run) meanwhile(act, dir, temporary string) func() error {
	do := hostActs()[act]
	over, done := make(chan struct{}), make(chan error, 1)
	goesOn := func(i int, began time.Time) bool {
		select {
		case <-over:
			return false
		default:
		}
		if i < r.o.Rounds || time.Since(began) < shortestRace {
			return true
		}
		_, err := os.Lstat(filepath.Join(dir, enoughName))
		return err != nil
	}
	go func() { // ends by itself
		var err error
		if do == nil {
			err = fmt.Errorf("there is no act %q of the host", act)
		} else {
			awaitFile(filepath.Join(dir, readyName), over)
		}
		for i, began := 0, time.Now(); err == nil && goesOn(i, began); i++ {
			if err = do(dir, temporary, r.secret, i); i%10 == 9 {
				time.Sleep(time.Millisecond) // on a busy machine the readers would not run at all
			}
		}
		done <- errors.Join(err, os.WriteFile(filepath.Join(dir, stopName), nil, 0o644))
	}()
	return func() error {
		close(over)
		return <-done
	}
}

// shortestRace is how long the host acts at least.
const shortestRace = 500 * time.Millisecond

// awaitFile returns when an attempt has made a file, by which it says that it is at
// work, or is over. One that never does is judged by what it says.
func awaitFile(path string, over <-chan struct{}) {
	for deadline := time.Now().Add(timeLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(path); err == nil {
			return
		}
		select {
		case <-over:
			return
		default:
		}
	}
}

// tag is in the environment of everything that an attempt starts.
func tag(f Facts) string { return "GANDER_PROBE_TAG=" + f.Mark[len("through-"):] }

// command is what to run for a case, and its environment.
func (r *run) command(c Case, f Facts) (args, env []string, err error) {
	facts, err := json.Marshal(f)
	if err != nil {
		return nil, nil, err
	}
	env = append(r.bait.environment(), tag(f), "OUT="+f.Out, "BESIDE="+f.Beside, fmt.Sprint("VICTIM=", f.Victim), "VICTIMNAME="+f.VictimName)
	if c.Do != "" {
		return []string{f.Executable, Verb, c.Do, string(facts)}, env, nil
	}
	shell := r.shell[1]
	if f.Outside {
		shell = r.shell[0]
	}
	return []string{shell, "-c", c.Sh, "probe", f.Mark}, env, nil
}

// startError means that an attempt could not be carried out.
type startError struct{ err error }

func (e *startError) Error() string { return "it could not be started: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// carryOut runs an attempt and returns what it said.
func (r *run) carryOut(ctx context.Context, c Case, f Facts, limit time.Duration) ([]byte, error) {
	args, env, err := r.command(c, f)
	if err != nil {
		return nil, err
	}
	if f.Outside {
		return r.outside(ctx, args, f.Dir, env, limit)
	}
	return r.inside(ctx, args, f.Dir, env, limit)
}

// outside runs the control as any program would run it: with the caller's
// environment, in which a secret is, and an open file.
func (r *run) outside(ctx context.Context, args []string, dir string, env []string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said, err := os.CreateTemp(r.dir("tmp"), "said")
	if err != nil {
		return nil, err
	}
	defer func() { _ = said.Close(); _ = os.Remove(said.Name()) }()
	secret, err := os.Open(filepath.Join(r.bait.facts.Beside, "secret"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = secret.Close() }()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = dir, said, said, []*os.File{secret}
	cmd.Env = append(slices.Concat([]string{"PATH=" + searchPath, "LC_ALL=C"}, env), "HOME="+r.bait.home(), "PROBE_API_KEY="+r.secret, "OLDPWD="+r.bait.facts.Beside)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	runErr := cmd.Run()
	text, err := os.ReadFile(said.Name())
	return text[:min(len(text), maxSaid)], errors.Join(err, ended(runErr))
}

// ended is an error that is worth telling: exit codes are not.
func ended(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return nil
	}
	return err
}

// inside runs a command in the sandbox, kills what it leaves, and returns what it said.
func (r *run) inside(ctx context.Context, args []string, dir string, env []string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	info := r.sb.Info()
	all := append(info.Environment([]string{"PATH=" + searchPath, "LC_ALL=C"}), env...)
	p, err := r.sb.Start(ctx, sandbox.Command{Args: args, Env: append(all, "HOME="+info.Home), Dir: dir, NullStdin: true})
	if err != nil {
		return nil, &startError{err}
	}
	var said said
	var readers sync.WaitGroup
	for _, stream := range []io.Reader{p.Stdout(), p.Stderr()} {
		readers.Go(func() { _, _ = io.Copy(&said, stream) })
	}
	_, err = p.Wait(ctx)
	whole, cancelKill := context.WithTimeout(context.WithoutCancel(ctx), timeLimit)
	defer cancelKill()
	switch killErr := p.Kill(whole); {
	case errors.Is(killErr, sandbox.ErrGone):
		r.awaitEnd(whole) // with which ends what is left of it, and not before
	case killErr != nil:
		err = errors.Join(err, fmt.Errorf("killing what is left of it: %w", killErr))
	}
	readers.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not done after %v", limit)
	}
	return said.text, err
}

// said collects the beginning of what both streams carry.
type said struct {
	mu   sync.Mutex
	text []byte
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b[:min(len(b), maxSaid-len(s.text))]...)
	return len(b), nil
}

//go:build unix

package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
)

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

// maxCaches bounds the caches of the probe's project, in bytes.
const maxCaches = 1 << 20

// open makes a sandbox, in place of the one before if there is one, and works in it.
func (r *run) open(ctx context.Context) error {
	sb, err := r.o.Create(ctx, sandbox.Spec{
		ID: "probe-" + strings.ToLower(rand.Text()[:8]), WorkingDir: r.dir("project"), Home: r.dir("home"),
		Mounts: append(r.bait.shown(), sandbox.Mount{Path: r.dir("out"), Writable: true}), Caches: maxCaches, Labels: map[string]string{"purpose": "probe"}, Rules: &sandbox.Rules{},
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

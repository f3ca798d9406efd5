//go:build unix

package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
)

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

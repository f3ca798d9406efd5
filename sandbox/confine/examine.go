package confine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/policy"
)

// surveyTime bounds how long a first prompt waits for what the session says of its
// sandbox before it.
const surveyTime = 20 * time.Second

// survey is what was found out about a sandbox before its agent starts.
type survey struct {
	closed  sandbox.ClosedFiles
	tracked tracked
}

// Examination is of a sandbox that was just made.
type Examination struct {
	Driver sandbox.Driver
	// Spec is what it was made of, see GiveGitStore.
	Spec sandbox.Spec
	// StateDir is gander's, for what is made for the examination.
	StateDir string
	// Git is the policy's.
	Git string
}

// Examined is what an Examination found.
type Examined struct {
	git    string
	driver string
	weaker bool               // may it be?
	survey *survey            // nil where no rules are kept
	keeper sandbox.RuleKeeper // so, too
	// repositories are those of which it was protected what they name; nil when that failed.
	repositories *sandbox.Repositories
	hiding       *hiding // nil where git hides nothing
	lacks        string  // what is weaker, in a sentence
}

// Examine finds out what a sandbox's rules close of a project, and what git keeps of
// it, before anything hostile runs inside, and does what the policy's git says about
// that. The error says why nothing may run.
func (e Examination) Examine(ctx context.Context, sb sandbox.Sandbox) (*Examined, error) {
	found := e.newExamined()
	strict := e.Git != policy.GitWarn && found.driver != sandbox.Off
	keeper, ok := sb.(sandbox.RuleKeeper)
	if !ok {
		if strict {
			return nil, refuse("the policy's git: %q cannot be kept in this %s sandbox, which keeps no rules for files; take another sandbox, or set \"git\": \"warn\"", e.Git, found.driver)
		}
		return found, nil
	}
	short, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	closed, err := keeper.Closed(short)
	if err != nil {
		if strict {
			return nil, refuse("the policy's git: %q cannot be kept: %w; set \"git\": \"warn\", or do without --allow-weaker", e.Git, err)
		}
		return found, nil //nolint:nilerr // a weaker sandbox, which says so itself
	}
	found.survey, found.keeper = &survey{closed: closed}, keeper
	if e.Git == policy.GitHide && strict {
		found.hiding = &hiding{driver: e.Driver, spec: e.Spec, stateDir: e.StateDir, keeper: keeper}
		found.survey.tracked, err = found.hiding.hide(ctx)
		return found, errors.Join(err, found.protect(ctx))
	}
	repos, err := keeper.Repositories(short)
	if err != nil {
		found.survey.tracked.unknown = []string{err.Error()}
	} else {
		found.survey.tracked = findTracked(short, sb, keeper, repos)
	}
	return found, errors.Join(found.survey.tracked.act(e.Git), found.protect(ctx))
}

// newExamined is the beginning of what an examination finds.
func (e Examination) newExamined() *Examined {
	return &Examined{git: e.Git, driver: e.Driver.Name(), weaker: e.Spec.Rules != nil && e.Spec.Rules.Optional}
}

// protect has protected what git's configuration names now. Where the sandbox may be
// weaker it notes what is not.
func (e *Examined) protect(ctx context.Context) error {
	e.lacks, e.repositories = "", nil
	repos, err := e.keeper.ProtectNamed(ctx)
	switch {
	case err == nil:
		e.repositories = &repos
	case e.weaker && ctx.Err() == nil:
		e.lacks = fmt.Sprintf("Files that git's configuration names can be written inside (%v).", err)
		return nil
	}
	return err
}

// Protect has protected what git's configuration in the project names, and looks at
// nothing else. What it returns knows of that alone.
func (e Examination) Protect(ctx context.Context, sb sandbox.Sandbox) (*Examined, error) {
	found := e.newExamined()
	keeper, ok := sb.(sandbox.RuleKeeper)
	if !ok {
		return found, nil
	}
	if _, err := keeper.Judge(ctx, nil); err != nil {
		return found, nil //nolint:nilerr // a weaker sandbox, which says so itself
	}
	found.keeper = keeper
	return found, found.protect(ctx)
}

// Weaker is what does not hold of git's protection, in sentences for the person.
func (e *Examined) Weaker() []string {
	if e.lacks == "" {
		return nil
	}
	return []string{e.lacks}
}

// Surveyed reports whether it is known what the rules close: not where none are kept.
func (e *Examined) Surveyed() bool { return e.survey != nil }

// SayClosed says in a clause what the rules close; it is empty where they close nothing. There must be a survey.
func (e *Examined) SayClosed() string { return sayClosed(e.survey.closed) }

// GitNotices returns what the person should know of git. There must be a survey.
func (e *Examined) GitNotices() []string {
	return append(e.survey.tracked.notices(e.git), e.Weaker()...)
}

// Notices returns all that the person should know.
func (e *Examined) Notices() (all []string) {
	if e.survey == nil {
		return nil
	}
	if closed := e.SayClosed(); closed != "" {
		all = append(all, "In this "+e.driver+" sandbox "+closed+".")
	}
	return append(all, e.GitNotices()...)
}

// Again does for what has come to git from outside since, or after a change of the
// rules, what the policy's git says, and returns what is new for the person to know.
// Until then that is closed where the policy hides anything. The error says why nothing
// more may run.
func (e *Examined) Again(ctx context.Context) (said []string, err error) {
	if e.keeper != nil {
		before := e.lacks
		if err := e.protect(ctx); err != nil {
			return nil, err
		}
		if e.lacks != before {
			said = e.Weaker()
		}
	}
	if e.hiding == nil {
		return said, nil
	}
	t, changed, err := e.hiding.again(ctx)
	switch {
	case ctx.Err() != nil:
		return said, ctx.Err()
	case err != nil:
		return append(said, fmt.Sprintf("What came to git's objects since they were last looked at stays closed to the agent (%v).", err)), nil
	case !changed:
		return said, nil
	}
	return append(said, t.notices(e.git)...), nil
}

// act does what a policy's git says about closed files that git keeps, but for hiding them.
func (t tracked) act(git string) error {
	switch {
	case git == policy.GitRefuse && len(t.paths) > 0:
		return refuse("git keeps content of files that rules close (%s), and the policy refuses that; remove them from git's history, or set \"policy\": {\"git\": \"hide\"} or \"warn\"", SomeOf(t.paths, len(t.paths)))
	case git == policy.GitRefuse && len(t.unknown) > 0:
		return refuse("whether git keeps content of files that rules close is not known (%s), and the policy refuses that; set \"policy\": {\"git\": \"warn\"} to go on", SomeOf(t.unknown, len(t.unknown)))
	}
	return nil
}

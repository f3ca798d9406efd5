package router

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/policy"
)

// SandboxPolicy is what the sandboxes of a project may do.
type SandboxPolicy struct {
	policy.Policy
	// Refused is what the project's own file asks for and does not get.
	Refused []policy.Request
	// Mounts and Env are what the project's file adds, when it is trusted, to what
	// drivers and agents have of the person's.
	Mounts []sandbox.Mount
	Env    []string
}

// Bounds are the policy's limits for a Spec; where it has none the driver's hold.
func (p SandboxPolicy) Bounds() sandbox.Limits {
	l := p.Limits
	return sandbox.Limits{Memory: int64(l.Memory), CPU: l.CPU, Processes: l.Processes, Disk: int64(l.Disk), Time: time.Duration(l.Time)}
}

// surveyTime bounds how long a first prompt waits for what the session says of its
// sandbox before it.
const surveyTime = 20 * time.Second

// survey is what was found out about a sandbox before its agent starts.
type survey struct {
	closed  sandbox.ClosedFiles
	tracked tracked
}

// readPolicy is the policy of the session's project as it is now.
func (b *backend) readPolicy() (err error) {
	b.policy = SandboxPolicy{Policy: policy.Default()}
	if read := b.s.r.opts.Policy; read != nil {
		b.policy, err = read(b.s.cwd)
	}
	return err
}

// rules are those of the sandbox; nil when the router has none.
func (b *backend) rules() *sandbox.Rules {
	r := b.s.r.opts.Rules
	if r == nil {
		return nil
	}
	return &sandbox.Rules{Own: r.Own, Optional: r.Optional, Writes: b.policy.Writes, Denied: b.denied}
}

// examine finds out what the rules close, and what git keeps of it, before
// anything hostile runs in the sandbox, and does what the policy says about that.
func (b *backend) examine() (err error) {
	e := Examination{Driver: b.driver, Spec: b.made, StateDir: b.s.r.opts.StateDir, Git: b.policy.Git}
	b.examined, err = e.Examine(b.ctx, b.sb)
	return err
}

// examineAgain does so for what has come to git since, before a turn.
func (b *backend) examineAgain(ctx context.Context) error {
	said, err := b.examined.Again(ctx)
	for _, text := range said {
		b.s.notice("warning", text)
	}
	return err
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
	strict := e.Git != policy.GitWarn && found.driver != Off
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

// Notices are what the person should know.
func (e *Examined) Notices() (all []string) {
	if e.survey == nil {
		return nil
	}
	if e.survey.closed.Count > 0 {
		all = append(all, "In this "+e.driver+" sandbox "+sayClosed(e.survey.closed)+".")
	}
	return append(append(all, e.survey.tracked.notices(e.git)...), e.Weaker()...)
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
		return refuse("git keeps content of files that .gooseignore closes (%s), and the policy refuses that; remove them from git's history, or set \"policy\": {\"git\": \"hide\"} or \"warn\"", someOf(t.paths, len(t.paths)))
	case git == policy.GitRefuse && len(t.unknown) > 0:
		return refuse("whether git keeps content of files that .gooseignore closes is not known (%s), and the policy refuses that; set \"policy\": {\"git\": \"warn\"} to go on", someOf(t.unknown, len(t.unknown)))
	}
	return nil
}

// sayPolicy tells the person, before the first prompt, what the agent does not see
// and cannot do.
func (b *backend) sayPolicy() {
	if b.examined.survey == nil {
		return
	}
	for _, n := range b.policyNotices() {
		b.s.notice(n.severity, n.text)
	}
}

// policyNotices are what sayPolicy says. There is a survey.
func (b *backend) policyNotices() []notice {
	all := []notice{{"info", fmt.Sprintf("In this %s sandbox %s; %s; %s cannot be written. All of it: gander policy show.",
		b.driver.Name(), b.sayNetwork(), sayClosed(b.examined.survey.closed), b.sayProtected())}}
	for _, text := range append(b.examined.survey.tracked.notices(b.policy.Git), b.examined.Weaker()...) {
		all = append(all, notice{"warning", text})
	}
	if n := len(b.policy.Refused); n > 0 {
		all = append(all, notice{"warning", fmt.Sprintf("The project's .gander.json asks for more than you allow and does not get it: %s. See gander policy check; gander policy trust grants it.",
			someOf(requests(b.policy.Refused), n))})
	}
	return all
}

func (b *backend) sayNetwork() string {
	n := b.policy.Network
	if !n.Open() {
		return "nothing but the model can be reached"
	}
	hosts := append(append([]string{}, n.Presets...), n.Allow...)
	text := "the hosts of the policy can be reached besides the model (" + someOf(hosts, len(hosts)) + ")"
	if len(hosts) == 0 {
		text = "you are asked about every host but the model"
	}
	return text
}

func sayClosed(c sandbox.ClosedFiles) string {
	more := ""
	if c.Partial {
		more = "at least "
	}
	switch c.Count {
	case 0:
		return ".gooseignore closes " + map[bool]string{false: "nothing that is there", true: "nothing that was found"}[c.Partial]
	case 1:
		return fmt.Sprintf(".gooseignore closes %s%s", more, someOf(c.Examples, 1))
	}
	return fmt.Sprintf(".gooseignore closes %s%d files and directories (%s)", more, c.Count, someOf(c.Examples, c.Count))
}

// sayProtected names the groups of files that are protected.
func (b *backend) sayProtected() string {
	words := map[string]string{
		"git": "git's configuration and hooks", "hooks": "hook managers'", "editor": "editors'", "agent": "agents'", "shell": "shells' files", "ci": "CI files",
	}
	var names []string
	for _, g := range b.policy.Writes.Groups() {
		names = append(names, words[g])
	}
	if len(names) == 0 {
		return ".gander.json and .gooseignore"
	}
	return strings.Join(names, ", ")
}

func requests(rs []policy.Request) []string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Key+": "+r.Value)
	}
	return out
}

// maxExamples is how many names a notice has.
const maxExamples = 3

// someOf are a few of n names, printable whatever they are.
func someOf(names []string, n int) string {
	var out []string
	for _, name := range names[:min(len(names), maxExamples)] {
		out = append(out, printable(name))
	}
	if n > len(out) {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}

// maxName bounds a name in a notice, in bytes.
const maxName = 120

// printable is a name that somebody else chose, for people: without what a
// terminal would obey.
func printable(name string) string {
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	quoted := fmt.Sprintf("%q", name)
	if quoted == `"`+name+`"` {
		return name
	}
	return quoted
}

// shown is a path as the person is told of it, unless it has a secret in it.
func (b *backend) shown(path string) (name string, ok bool) {
	if b.s.leaks.Check(leakSaid, []byte(path)) != nil {
		return "", false
	}
	if rel, err := filepath.Rel(b.s.cwd, path); err == nil && filepath.IsLocal(rel) {
		path = rel
	}
	return printable(path), true
}

// denied tells the person why a program inside was refused a file.
func (b *backend) denied(d sandbox.Denial) {
	path := d.Path
	name, ok := b.shown(path)
	if !ok {
		return
	}
	text := fmt.Sprintf("%s is closed by .gooseignore: %s or a command of it was refused access (%s).", name, b.agent.Name(), d.Operation)
	switch {
	case d.Rule == sandbox.HiddenByGit:
		text = sandbox.SayHidden
	case d.Rule == sandbox.DeniedUnheard:
		text = fmt.Sprintf("%s is a socket at which nobody in the sandbox listens: %s or a command of it was refused (%s). Programs outside are not reached by sockets.", name, b.agent.Name(), d.Operation)
	case d.Rule == sandbox.DeniedByGit:
		text = fmt.Sprintf("%s may keep content of closed files, and policy.git is \"hide\": git was refused it (%s). What git says then is that objects are missing or cannot be read; the repository is whole, and works outside of the sandbox. What came from outside is looked at before the next prompt.", name, d.Operation)
	case d.Allow != "":
		text = fmt.Sprintf("%s is protected (%s: %s): %s or a command of it was refused (%s). To allow it, add %q to policy.writes.allow in gander's config.json.", name, d.Rule, d.Why, b.agent.Name(), d.Operation, d.Allow)
	case d.Rule != "" || filepath.Base(path) == ignore.FileName:
		text = fmt.Sprintf("%s cannot be changed from inside the sandbox: %s or a command of it was refused (%s).", name, b.agent.Name(), d.Operation)
	}
	b.s.work.Go(func() { b.s.notice("warning", text) }) // the backend runs, so nobody waits for work yet
}

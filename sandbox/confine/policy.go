package confine

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/rules/project"
)

// Policy says what the sandboxes of a project may do.
type Policy struct {
	policy.Policy
	// Refused is what the project's own file asks for and does not get.
	Refused []policy.Request
	// Mounts and Env are what the project's file adds, when it is trusted, to what
	// drivers and agents have of the person's.
	Mounts []sandbox.Mount
	Env    []string
	// Caches limits the bytes of the project's caches that are kept between sandboxes; 0 keeps none.
	Caches int64
	// HomeFiles are put into the home inside besides those of Settings.
	HomeFiles map[string][]byte
	// HomeLinks are links in the home inside, besides the agent's own, which count first.
	HomeLinks map[string]string
	// Files are at their absolute paths inside.
	Files map[string][]byte
	// Settings are the person's of git that count inside.
	Settings gitconfig.Settings
	// Place says where git keeps what belongs to the project elsewhere; Mounts show it.
	Place gitconfig.Place
}

// WithPlace returns the policy with where git keeps what belongs to a project elsewhere, and has that
// shown.
func (p Policy) WithPlace(at gitconfig.Place) Policy {
	p.Place, p.Env, p.Settings.Unsigned = at, append(p.Env, at.Environment()...), p.Settings.Unsigned || at.Signs
	if at.Top != "" {
		p.Mounts = append(p.Mounts, sandbox.Mount{Path: at.Top, Writable: p.Project == policy.ProjectRepository, Ruled: true})
	}
	for i, dir := range []string{at.Inner, at.Common, at.Dir} {
		if dir != "" && (i < 2 || !project.Below(dir, at.Common)) {
			p.Mounts = append(p.Mounts, sandbox.Mount{Path: dir, Writable: true})
		}
	}
	for _, store := range at.Objects {
		p.Mounts = append(p.Mounts, sandbox.Mount{Path: store})
	}
	return p
}

// mounts are the policy's; to a sandbox that only reads, nothing of git's is writable.
func (p Policy) mounts(readOnly bool) []sandbox.Mount {
	all := slices.Clone(p.Mounts)
	for i := range all {
		if readOnly && slices.Contains([]string{p.Place.Top, p.Place.Inner, p.Place.Common, p.Place.Dir}, all[i].Path) {
			all[i].Writable = false
		}
	}
	return all
}

// GiveRules gives the rules of a sandbox what the policy has for them.
func (p Policy) GiveRules(r *sandbox.Rules) {
	r.Writes, r.Place, r.Whole = p.Writes, p.Place, p.Project == policy.ProjectRepository
}

// SayPlace says what is shown of git for the project besides it, in sentences.
func (p Policy) SayPlace() (all []string) {
	if p.Place.Top != "" {
		what := "can be read inside, and not written; " + sandbox.WholeRepository + " lets it be written, \"directory\" hides it"
		if p.Project == policy.ProjectRepository {
			what = "can be read and written inside"
		}
		all = append(all, fmt.Sprintf("The project is a directory of the repository %s: the rest of that %s.", Printable(p.Place.Top), what))
	}
	if p.Place.Common != "" {
		all = append(all, fmt.Sprintf("Git's directory of the project, %s, is shown inside; what belongs to other work trees there can only be read. %s hides it.", Printable(p.Place.Common), `"policy": {"project": "directory"}`))
	}
	if n := len(p.Place.Objects); n > 0 {
		all = append(all, fmt.Sprintf("Git's objects in %s can be read inside.", SomeOf(p.Place.Objects, n)))
	}
	if from := p.shownSkills(); from != "" {
		all = append(all, fmt.Sprintf("Skills can be read inside, of %s.", from))
	}
	return append(all, p.Place.Left...)
}

// shownSkills names the folders of the skills that are shown; empty without any.
func (p Policy) shownSkills() string {
	var folders []string
	for _, to := range p.HomeLinks {
		if dir := filepath.Dir(to); !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	slices.Sort(folders)
	return SomeOf(folders, len(folders))
}

// Bounds are the policy's limits for a Spec; where it has none the driver's hold.
func (p Policy) Bounds() sandbox.Limits {
	l := p.Limits
	return sandbox.Limits{Memory: int64(l.Memory), CPU: l.CPU, Processes: l.Processes, Disk: int64(l.Disk), Time: time.Duration(l.Time)}
}

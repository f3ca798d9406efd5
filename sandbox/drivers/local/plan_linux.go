package local

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/caches"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/rules/devices"
	"gander.dev/gander/sandbox/rules/project"
)

func (d *Driver) plan(spec sandbox.Spec, exe string) (made plan, err error) {
	if d.name == nameOff {
		return d.offPlan(spec, exe)
	}
	if d.options.RefuseNamespaces {
		no := &refusal{errors.New("namespaces are turned off")}
		if !mayBeWeaker(spec) {
			return plan{}, notWeaker(no)
		}
		return d.plainPlan(spec, exe, no)
	}
	proj, err := project.Open(spec.WorkingDir, spec.Home, d.options.StateDir)
	if err != nil {
		return plan{}, err
	}
	who := proj.Owner
	p := plan{exe: exe, warnings: who.Warnings, home: homeInside(spec, proj.Path)}
	defer func() {
		if err != nil {
			p.caches.Close()
		}
	}()
	p.process = processPlan{namespaces: true, users: with(os.Geteuid(), who.UID), groups: with(os.Getegid(), who.GID)}
	p.limits, p.uid = settle(spec.Limits), who.UID
	p.isolation = fmt.Sprintf("user, mount, PID, network, IPC and UTS namespaces as uid %d", who.UID)
	p.setup = supervise.Setup{
		WorkingDir: proj.Path, Identity: identity(who), Loopback: true, Hostname: project.Host,
	}
	if p.setup.Root, err = d.root(spec, proj, exe); err != nil {
		return plan{}, err
	}
	if p.setup.Root.Devices, err = devices.Find(d.options.Devices); err != nil {
		return plan{}, err
	}
	p.setup.Root.Files = filesInside(spec, who, p.home)
	if spec.Home != "" {
		kept, err := caches.Fill(spec, p.home, caches.Options{StateDir: d.options.StateDir, Driver: Name, Project: proj})
		if err != nil {
			return plan{}, err
		}
		if p.caches = kept; kept != nil {
			p.setup.Root.Binds = append(p.setup.Root.Binds, supervise.Bind{Path: kept.Dir(), At: caches.Inside, Writable: true})
		}
	}
	asRoot := who.UID == 0 || who.GID == 0
	if asRoot {
		p.private = sync.OnceValues(func() ([]supervise.Private, error) { return privateBelow(privateDir) })
		go func() { _, _ = p.private() }() // ends with the list
	}
	p.setup.Road, p.setup.Root.Resolver = spec.Road, spec.Road != nil
	p.setup.Limits, p.setup.Writable = resources(p.limits), supervise.WritablePaths()
	p.setup.Root.Temporary, p.setup.Root.TemporaryFiles = p.limits.Disk, p.limits.Memory/memoryPerFile
	for _, b := range p.setup.Root.Binds {
		if b.Writable {
			p.setup.Writable = append(p.setup.Writable, cmp.Or(b.At, b.Path))
		}
	}
	if p.setup.Rules, err = supervise.ReadRules(spec, proj.Path); err != nil {
		return plan{}, err
	}
	if p.setup.Rules != nil {
		p.setup.Rules.OwnMounts, p.setup.Rules.OwnNetwork = true, true
		if asRoot { // what is covered is the machine's to replace, and it makes more
			p.setup.Rules.Public = []string{privateDir}
		}
	}
	if err := who.Own(spec.Home); err != nil {
		return plan{}, err
	}
	return p, nil
}

// filesInside returns the files that are made for a sandbox: those by which programs find out
// who and where they are, and the Spec's, but where the system has them.
func filesInside(spec sandbox.Spec, who project.Owner, home string) map[string][]byte {
	shell := "/bin/sh"
	if _, err := os.Stat("/bin/bash"); err == nil {
		shell = "/bin/bash"
	}
	files := who.Names(home, shell, func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil || len(text) > maxNames {
			return ""
		}
		return string(text)
	})
	for path, text := range spec.Files {
		if !slices.ContainsFunc(project.SystemDirs(), func(dir string) bool { return project.Below(path, dir) }) {
			files[path] = text
		}
	}
	return files
}

// maxNames bounds a system's list of names that is read, in bytes.
const maxNames = 256 << 10

// memoryPerFile is how much of the bound of memory there has to be for one file in memory.
// The supervisor makes files and links for the commands, so that what the kernel needs for
// these, a page and a quarter at most, is in no bound of theirs.
const memoryPerFile = 16 << 10

// homeInside is where the home is shown: the usual place, unless the project is there.
func homeInside(spec sandbox.Spec, path string) string {
	switch {
	case spec.Home == "":
		return ""
	case project.Below(supervise.AgentHome, path):
		return "/home/gander"
	}
	return supervise.AgentHome
}

func (d *Driver) root(spec sandbox.Spec, proj project.Project, exe string) (*supervise.Root, error) {
	r := &supervise.Root{System: project.SystemDirs(), Executable: exe}
	if spec.Home != "" {
		home, err := filepath.EvalSymlinks(spec.Home)
		if err != nil {
			return nil, fmt.Errorf("opening the sandbox's home: %w", err)
		}
		r.Binds = append(r.Binds, supervise.Bind{Path: home, At: homeInside(spec, proj.Path), Writable: true})
	}
	for _, m := range d.mounts(spec) {
		if err := show(r, m, spec.WritableDirs()); err != nil {
			return nil, err
		}
	}
	if err := show(r, sandbox.Mount{Path: spec.WorkingDir, Writable: !spec.ReadOnly}, nil); err != nil {
		return nil, err
	}
	// What lies in something else that is shown is mounted on it, not hidden by it.
	slices.SortStableFunc(r.Binds, func(a, b supervise.Bind) int { return depth(a) - depth(b) })
	return r, nil
}

// mounts are all that a sandbox is to show besides the project and its home.
func (d *Driver) mounts(spec sandbox.Spec) []sandbox.Mount {
	all := slices.Clone(spec.Mounts)
	for _, path := range d.options.ReadOnlyPaths {
		all = append(all, sandbox.Mount{Path: path})
	}
	return all
}

// depth is how many directories a bind is below the root.
func depth(b supervise.Bind) int {
	if b.At != "" {
		return strings.Count(b.At, "/")
	}
	return strings.Count(b.Path, "/")
}

// show adds a mount under its real path, and a link under the name that was asked for.
func show(r *supervise.Root, m sandbox.Mount, writable []string) error {
	real, err := project.Resolve(m.Path, writable)
	if err != nil {
		return fmt.Errorf("showing %s in the sandbox: %w", m.Path, err)
	}
	r.Binds = append(r.Binds, supervise.Bind{Path: real, Writable: m.Writable})
	if name := filepath.Clean(m.Path); name != real {
		r.Links = append(r.Links, supervise.Link{At: name, Target: real})
	}
	return nil
}

// with are the ids that exist inside: the supervisor's and the commands'.
func with(own, other int) []int { return slices.Compact([]int{own, other}) }

// identity is for the supervisor to change to; only root can, and has to drop its groups too.
func identity(o project.Owner) *supervise.Identity {
	if os.Geteuid() != 0 {
		return nil
	}
	return &supervise.Identity{UID: o.UID, GID: o.GID}
}

// offPlan supervises as the user that gander is.
func (d *Driver) offPlan(spec sandbox.Spec, exe string) (plan, error) {
	if spec.ReadOnly {
		return plan{}, errReadOnly
	}
	p := plan{
		exe: exe, home: spec.Home, setup: supervise.Setup{WorkingDir: spec.WorkingDir, KeepPrivileges: true},
		isolation: fmt.Sprintf("none: processes are supervised, as uid %d", os.Geteuid()),
		weaker:    []string{"none"},
		warnings:  []string{"There is no sandbox: commands see all files that you can see, and the network. Processes are still supervised and end with the session."},
	}
	if !d.options.KeepRules {
		return p, nil
	}
	real, err := filepath.EvalSymlinks(spec.WorkingDir)
	if err != nil {
		return plan{}, fmt.Errorf("finding the directory of the rules for files: %w", err)
	}
	p.setup.Rules, err = supervise.ReadRules(spec, real)
	return p, err
}

// notWeaker says why there is no sandbox.
func notWeaker(why *refusal) error {
	return fmt.Errorf("this machine does not permit user namespaces (%w), without which the files of this machine outside of the project and its network are not closed off; %s; or take the docker sandbox, or permit a weaker one with --allow-weaker", why.err, remedy(os.ReadFile))
}

// plainPlan is for where namespaces are refused.
func (d *Driver) plainPlan(spec sandbox.Spec, exe string, why *refusal) (plan, error) {
	if spec.ReadOnly {
		return plan{}, errReadOnly
	}
	if err := caches.Leave(spec); err != nil {
		return plan{}, err
	}
	p := plan{exe: exe, home: spec.Home, setup: supervise.Setup{WorkingDir: spec.WorkingDir}, limits: settle(spec.Limits)}
	p.setup.Limits = resources(p.limits)
	p.setup.Limits.Processes = 0 // without a user namespace it would count all that the user runs
	uid, path := os.Geteuid(), spec.WorkingDir
	if proj, err := project.Open(spec.WorkingDir); err == nil && proj.Owner.Own(spec.Home) == nil {
		p.setup.Identity, p.warnings, uid, path = identity(proj.Owner), proj.Owner.Warnings, proj.Owner.UID, proj.Path
	}
	p.uid, p.setup.Writable = uid, append(supervise.WritablePaths(), os.TempDir(), path)
	if spec.Home != "" {
		p.setup.Writable = append(p.setup.Writable, spec.Home)
	}
	mounts, err := d.resolved(spec)
	if err != nil {
		return plan{}, err
	}
	spec.Mounts = mounts
	for _, m := range mounts {
		if m.Writable {
			p.setup.Writable = append(p.setup.Writable, m.Path)
		}
	}
	if p.setup.Rules, err = supervise.ReadRules(spec, path); err != nil {
		return plan{}, err
	}
	p.isolation = fmt.Sprintf("supervised processes as uid %d, no namespaces", uid)
	p.weaker = []string{"files outside of the project and the network are not closed off"}
	p.warnings = append(p.warnings, fmt.Sprintf("This machine does not permit user namespaces (%v), so the files of this machine outside of the project and its network are NOT closed off; %s.", why.err, remedy(os.ReadFile)))
	return p, nil
}

// resolved are the mounts by their real paths. Here a path is written to, or has rules, where
// it leads to, and what the sandbox could make a link decides neither.
func (d *Driver) resolved(spec sandbox.Spec) ([]sandbox.Mount, error) {
	all := d.mounts(spec)
	for i, m := range all {
		real, err := project.Resolve(m.Path, spec.WritableDirs())
		if err != nil {
			return nil, fmt.Errorf("showing %s in the sandbox: %w", m.Path, err)
		}
		all[i].Path = real
	}
	return all, nil
}

// remedy names the setting that forbids user namespaces here.
func remedy(read func(string) ([]byte, error)) string {
	for _, s := range []struct{ file, bad, fix string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
	} {
		if v, err := read(s.file); err == nil && strings.TrimSpace(string(v)) == s.bad {
			return "to permit them run \"" + s.fix + "\" as root"
		}
	}
	return "in a container use the docker driver outside of it, or permit it to make namespaces and to mount /proc"
}

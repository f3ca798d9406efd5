package docker

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/caches"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/rules/devices"
	"gander.dev/gander/sandbox/rules/project"
)

// plan is what a container is going to be.
type plan struct {
	spec     sandbox.Spec
	project  project.Project
	home     string // inside
	image    string
	command  []string // the first process, inside
	mounts   []mount.Mount
	devices  []string
	labels   map[string]string
	created  time.Time
	user     project.Owner
	limits   Limits
	warnings []string
	weaker   []string // see sandbox.Info
	rootless bool     // the daemon runs as an ordinary user
	health   bool     // the image has a health check
	hidden   bool     // it may have one, of which the daemon says nothing
	env      []string // what the image sets
	rules    *supervise.Rules
	caches   *caches.Caches
	filter   string // the seccomp profile; empty leaves the daemon's own
}

func (d *Driver) plan(spec sandbox.Spec) (plan, error) {
	proj, err := project.Open(spec.WorkingDir, spec.Home, d.options.StateDir)
	if err != nil {
		return plan{}, err
	}
	program, err := d.options.program()
	if err != nil {
		return plan{}, err
	}
	p := plan{
		spec: spec, project: proj, user: proj.Owner, warnings: proj.Owner.Warnings, created: time.Now().UTC(),
		image: d.options.Image(cmp.Or(spec.Labels[programLabel], spec.Labels[agentLabel])), home: homeInside(spec, proj), command: []string{imageProgram, supervise.Verb},
	}
	if p.rules, err = supervise.ReadRules(spec, proj.Path); err != nil {
		return plan{}, err
	}
	if p.mounts, err = d.mounts(p, program); err != nil {
		return plan{}, err
	}
	if program != "" {
		p.command[0] = supervise.InsideExecutable
	}
	if p.devices, err = devices.Find(d.options.Devices); err != nil {
		return plan{}, err
	}
	p.labels = p.containerLabels(d.options.StateDir)
	if spec.Home == "" {
		return p, nil
	}
	if p.caches, err = caches.Fill(spec, p.home, caches.Options{StateDir: d.options.StateDir, Driver: Name, Image: p.image, Project: proj}); err != nil {
		return plan{}, err
	}
	if p.caches != nil {
		p.mounts = append(p.mounts, mount.Mount{
			Type: mount.TypeBind, Source: p.caches.Dir(), Target: caches.Inside, BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	if err := proj.Owner.Own(spec.Home); err != nil {
		p.caches.Close()
		return plan{}, err
	}
	return p, nil
}

// withSocket is the plan with a first process that connects to a socket in dir.
func (p plan) withSocket(dir string) plan {
	p.command = []string{p.command[0], Verb, socketInside}
	p.mounts = append(slices.Clone(p.mounts), mount.Mount{
		Type: mount.TypeBind, Source: dir, Target: filepath.Dir(socketInside), ReadOnly: true,
	})
	return p
}

// homeInside is where the home is shown: the usual place, unless the project is there.
func homeInside(spec sandbox.Spec, proj project.Project) string {
	switch {
	case spec.Home == "":
		return ""
	case project.Below(supervise.AgentHome, proj.Path) || project.Below(supervise.AgentHome, proj.Name):
		return "/home/gander"
	}
	return supervise.AgentHome
}

// Defaults of Limits.
const (
	memoryNum       = 3
	memoryDenom     = 4
	sharedMemory    = 512 << 20
	nanosecondsPerS = 1e9
)

// fit settles what depends on the daemon's machine.
func (p *plan) fit(machine system.Info, limits Limits) {
	limits.Memory, limits.CPUs = cmp.Or(p.spec.Limits.Memory, limits.Memory), cmp.Or(p.spec.Limits.CPU, limits.CPUs)
	limits.PIDs = cmp.Or(p.spec.Limits.Processes, limits.PIDs)
	p.limits = limits
	if limits.Memory == 0 {
		p.limits.Memory = max(machine.MemTotal/memoryDenom*memoryNum, sandbox.LeastMemory)
	}
	if p.limits.PIDs = min(max(limits.PIDs, -1), sandbox.MaxProcesses); limits.PIDs == 0 {
		p.limits.PIDs = sandbox.DefaultProcesses
	}
}

// isRootless says whether the daemon runs as an ordinary user.
func isRootless(machine system.Info, host string) bool {
	return ofUser(host) || slices.Contains(machine.SecurityOptions, "name=rootless")
}

// becomeRootless is for such a daemon: root in there is its user out here, who is
// this one and needs no warning.
func (p *plan) becomeRootless() {
	p.user, p.warnings, p.rootless = project.Owner{}, nil, true
}

// setup is what the supervisor in the container is told.
func (p plan) setup(log *slog.Logger) supervise.Setup {
	s := supervise.Setup{WorkingDir: p.project.Path, Doors: p.spec.Doors, Road: p.spec.Road, Log: log}
	s.Limits = &supervise.Resources{File: max(p.spec.Limits.Disk, 0), Time: max(p.spec.Limits.Time, 0)}
	s.Writable = supervise.WritablePaths()
	for _, m := range p.mounts {
		if !m.ReadOnly {
			s.Writable = append(s.Writable, m.Target)
		}
	}
	if p.rules != nil {
		// Nothing that is mounted on the host later shows up in a container.
		rules := *p.rules
		rules.OwnMounts, rules.OwnNetwork = true, true
		s.Rules, s.Denied = &rules, p.spec.Rules.Denied
	}
	return s
}

// withoutRules is for where the kernel does not let rules be kept, and that was
// permitted.
func (p plan) withoutRules(why error) plan {
	p.rules, p.weaker = nil, []string{"closed files are open"}
	p.warnings = append(slices.Clone(p.warnings), fmt.Sprintf("Files that rules close are NOT closed in this sandbox, and those that would make this machine run something can be written (%v).", why))
	return p
}

// config is the container for the daemon.
func (p plan) config() *api.Config {
	c := &api.Config{
		Image:       p.image,
		Hostname:    project.Host,
		User:        fmt.Sprintf("%d:%d", p.user.UID, p.user.GID),
		Entrypoint:  p.command,
		WorkingDir:  "/",
		Labels:      p.labels,
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
		// The end of the attached stream is the end of stdin, and of the sandbox.
		OpenStdin: true, StdinOnce: true,
		// The supervisor does not end by asking; what docker stop does is final.
		StopSignal: "SIGKILL",
	}
	if p.health {
		// Its processes would come from outside of the supervisor's. Podman 4 cannot
		// be told where there is nothing to turn off.
		c.Healthcheck = &api.HealthConfig{Test: []string{"NONE"}}
	}
	return c
}

// temporary are the file systems in memory; programs may run from them, as on
// other machines.
func temporary(disk int64) map[string]string {
	all := map[string]string{}
	for at, mode := range map[string]string{"/tmp": "1777", "/var/tmp": "1777", "/run": "0755"} {
		all[at] = "rw,nosuid,nodev,exec,mode=" + mode + supervise.TemporarySize(at, disk)
	}
	return all
}

// hostConfig is what the container may do. It has no limits of the kind of
// ulimit: the supervisor turns core dumps off, and Podman adds limits of its own
// to any that are given, which it may not have the right to.
func (p plan) hostConfig() *api.HostConfig {
	no := false
	h := &api.HostConfig{
		AutoRemove:     true,
		NetworkMode:    "none",
		ReadonlyRootfs: true,
		Mounts:         p.mounts,
		Tmpfs:          temporary(p.spec.Limits.Disk),
		ShmSize:        sharedMemory,
		IpcMode:        api.IPCModePrivate,
		CapDrop:        []string{"ALL"},
		// Labels of SELinux would have to be written to the project's files.
		SecurityOpt: []string{"no-new-privileges", "label=disable"},
		MaskedPaths: supervise.CoveredPaths(), ReadonlyPaths: supervise.LockedPaths(),
		// The owner of the project has the same number inside, also where the
		// daemon maps users by default.
		UsernsMode: "host",
		// All that the agent and its commands say passes through here.
		LogConfig: api.LogConfig{Type: "none"},
		Init:      &no,
	}
	if p.spec.Road != nil {
		h.DNS = []netip.Addr{netip.MustParseAddr(supervise.Resolver)}
		h.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"} // for the resolver, in the container's own network
	}
	for _, path := range p.devices {
		h.Devices = append(h.Devices, api.DeviceMapping{PathOnHost: path, PathInContainer: path, CgroupPermissions: "rw"})
	}
	if p.filter != "" {
		h.SecurityOpt = append(h.SecurityOpt, "seccomp="+p.filter)
	}
	if p.limits.Memory > 0 {
		h.Memory, h.MemorySwap = p.limits.Memory, p.limits.Memory
	}
	if p.limits.CPUs > 0 {
		h.NanoCPUs = int64(p.limits.CPUs * nanosecondsPerS)
	}
	h.PidsLimit = &p.limits.PIDs // without one, Podman has a default of its own
	return h
}

// namePrefix begins the names of all containers.
const namePrefix = "goku-sandbox-"

// name is the container's; a second one of the same session gets another.
func (p plan) name(second bool) string {
	agent, session := p.spec.Labels[agentLabel], p.spec.Labels[sessionLabel]
	if agent == "" || session == "" {
		return namePrefix + safeName(p.spec.ID)
	}
	name := namePrefix + safeName(agent+"-"+session)
	if second {
		name += "-" + safeName(p.spec.ID) + fmt.Sprintf("-%x", p.created.UnixNano())
	}
	return name
}

// safeName replaces what a container's name cannot have.
func safeName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
			return r
		}
		return '_'
	}, s)
}

// info describes the sandbox.
func (p plan) info(host *supervise.Host) sandbox.Info {
	who := fmt.Sprintf("uid %d", p.user.UID)
	if p.rootless {
		who += " (outside, the user of the daemon)"
	}
	return sandbox.Info{
		ID: p.spec.ID, Driver: Name, Home: p.home, Doors: host.Doors(),
		Isolation: fmt.Sprintf("a container of %s as %s, without network and capabilities, with a read-only root", p.image, who),
		Isolated:  true, Image: p.image, Env: p.env, Executable: p.command[0],
		Warnings: append(slices.Clone(p.warnings), host.Warnings()...), Weaker: p.weaker,
		Limits: append(p.bounds(), host.Limits()...), Enforcement: host.Enforcement(),
	}
}

// bounds say what the container is bounded by.
func (p plan) bounds() []string {
	one := func(what, value, means string, given bool) string {
		if !given {
			return what + ": not limited"
		}
		return what + ": " + value + ", by " + means
	}
	const mib = 1 << 20
	const group = "the container's cgroup"
	return []string{
		one("memory", fmt.Sprintf("%d MiB", p.limits.Memory/mib), group, p.limits.Memory > 0),
		one("processes", fmt.Sprint(p.limits.PIDs), group, p.limits.PIDs > 0),
		one("cpu", fmt.Sprint(p.limits.CPUs), group, p.limits.CPUs > 0),
		one("disk", fmt.Sprintf("%d MiB of temporary files", p.spec.Limits.Disk/mib), "tmpfs, and for each file; the project and the home are not limited together", p.spec.Limits.Disk > 0),
		one("time", p.spec.Limits.Time.String()+" for each command", "the supervisor", p.spec.Limits.Time > 0),
	}
}

// record is the sandbox for the registry, with its container and the first process
// of that as far as they are known yet.
func (p plan) record(container string, supervisor registry.ProcessRef) registry.Record {
	return registry.Record{
		ID: p.spec.ID, Driver: Name, Labels: maps.Clone(p.spec.Labels), WorkingDir: p.project.Path,
		Created: p.created, Owner: registry.Self(), Supervisor: supervisor, Container: container,
	}
}

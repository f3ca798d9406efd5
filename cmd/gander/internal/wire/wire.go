// Package wire puts the product together. It alone knows which concrete drivers, agents
// and stores there are.
package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/agents/custom"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/team/plain"
	"gander.dev/gander/sandbox/team/providers"
	"gander.dev/gander/sandbox/team/roster"
	"gander.dev/gander/sandbox/team/skills"
	"gander.dev/gander/sessions"
)

// Wiring puts the product together: the only place that knows which concrete
// agents, drivers and stores there are.
type Wiring struct {
	Log     *slog.Logger
	Secrets *cli.Secrets
	Environ []string
	Ways    *confine.Ways
	// HistoryLimit and SessionPrefix are flags of gander acp, see router.Options.
	HistoryLimit  int
	SessionPrefix string
	network       *policy.Network // instead of the policy's, see Place.Network

	// mu guards cfg, which changes with the configuration file.
	mu  sync.Mutex
	cfg *config.Config

	opening  sync.Once
	opened   *sessions.Store
	openFail error
}

func New(a *cli.App) *Wiring {
	return NewWiring(a, false)
}

// NewWiring returns a wiring; asks says that there is somebody to be asked about hosts.
func NewWiring(a *cli.App, asks bool) *Wiring {
	w := &Wiring{Log: a.Log, Secrets: a.Secrets, Environ: a.Environ, cfg: a.Config}
	w.Ways = confine.NewWays(w, confine.WaysOptions{Retries: retries, StateDir: a.Config.Home, Permissions: permit.Open(PermissionsDir(a.Config)), Asks: asks, Log: a.Log})
	return w
}

func (w *Wiring) Config() *config.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cfg
}

func (w *Wiring) SetConfig(cfg *config.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cfg = cfg
}

// Agents are offered in this order.
func (w *Wiring) Agents() []sandbox.Agent {
	var agents []sandbox.Agent
	for _, name := range w.Config().AgentNames() {
		if w.Config().OnlyTalks(name) {
			agents = append(agents, plain.New(name, func() (plain.Settings, error) { return talks(w.Config(), name) }))
			continue
		}
		agents = append(agents, w.NewAgent(name, func() (Settings, error) { return settingsOf(w.Config(), name) }))
	}
	return agents
}

// talks returns the settings of an agent that only talks.
func talks(cfg *config.Config, name string) (plain.Settings, error) {
	endpoint, err := cfg.Endpoint(name)
	s := plain.Settings{Model: endpoint.Model, Messages: endpoint.Protocol == providers.Anthropic}
	if m := cfg.Manifest(name); m != nil {
		s.Instructions = m.Instructions
	}
	return s, err
}

// NewAgent is the agent of a name, which asks for its settings each time it needs them.
func (w *Wiring) NewAgent(name string, get func() (Settings, error)) sandbox.Agent {
	program := w.Config().Program(name)
	o := acpagent.BaseOptions{Name: name, Log: w.Log, ReadsOnly: func() bool { return w.Config().ReadsOnly(name) }}
	if known, is := agents.Find(program); is {
		return known.New(get, o)
	}
	return custom.New(program, get, o)
}

// Agent finds one by name.
func (w *Wiring) Agent(name string) (sandbox.Agent, error) {
	for _, a := range append(w.Agents(), w.Orchestrator(nil)) {
		if a.Name() == name {
			return a, nil
		}
	}
	if p := w.Config().TeamProblem(name); p != nil {
		return nil, &cli.ExitError{Code: cli.ExitUsage, Err: p}
	}
	return nil, cli.UsageError("there is no agent %q in this version of gander; choose one of: %s", name, strings.Join(w.Config().Answering(), ", "))
}

// Drivers returns the drivers in the order in which they are offered, that of the choice auto first.
func (w *Wiring) Drivers() []sandbox.Driver {
	o := w.driverOptions(w.Config())
	var all []sandbox.Driver
	for _, known := range drivers.All() {
		d := known.New(o)
		if known.Name == drivers.Auto(runtime.GOOS) {
			all = slices.Insert(all, 0, d)
		} else {
			all = append(all, d)
		}
	}
	return all
}

func (w *Wiring) driverOptions(cfg *config.Config) drivers.Options {
	return drivers.Options{
		Local:  local.Options{Log: w.Log, StateDir: cfg.Home, ReadOnlyPaths: cfg.Sandbox.ReadOnlyPaths, Devices: cfg.Sandbox.Devices},
		Docker: w.DockerOptions(cfg),
	}
}

// ChosenDriver returns the driver that a --sandbox choice means on a system. Auto is one driver,
// not the first that works.
func ChosenDriver(choice, system string) string {
	if choice == router.Auto {
		return drivers.Auto(system)
	}
	return choice
}

// HasImages reports whether the configuration's sandboxes have the programs of an image, not
// this machine's.
func HasImages(cfg *config.Config) bool {
	r, _ := drivers.Find(ChosenDriver(cfg.Sandbox.Driver, runtime.GOOS))
	return r.HasImages
}

// Driver resolves a --sandbox choice.
func (w *Wiring) Driver(name string) (sandbox.Driver, error) {
	chosen := ChosenDriver(name, runtime.GOOS)
	for _, d := range w.Drivers() {
		if d.Name() == chosen {
			return d, nil
		}
	}
	return nil, cli.UsageError("there is no sandbox %q in this version of gander; choose one of: %s", name, strings.Join(cli.SandboxChoices(), ", "))
}

// Rules implements confine.Settings: what closes files in sandboxes beside a project's
// .gooseignore. The person's own file is goose's.
func (w *Wiring) Rules() *sandbox.Rules {
	r := &sandbox.Rules{Optional: w.Config().Sandbox.AllowWeaker}
	if dir := cli.GooseConfigDir(w.Environ); dir != "" {
		r.Own = filepath.Join(dir, ignore.FileName)
	}
	return r
}

// CheckChoices fails when the configuration names an agent or a sandbox that
// this version does not have.
func (w *Wiring) CheckChoices() error { return w.checkChoicesOf(w.Config()) }

func (w *Wiring) checkChoicesOf(cfg *config.Config) error {
	_, err := w.Agent(cfg.Agent)
	if err == nil {
		_, err = w.Driver(cfg.Sandbox.Driver)
	}
	return err
}

// Store returns the store of the conversations. It is opened once, so that what one user of it
// has read of a transcript the others need not read again.
func (w *Wiring) Store() (*sessions.Store, error) {
	w.opening.Do(func() { w.opened, w.openFail = w.openStore() })
	return w.opened, w.openFail
}

func (w *Wiring) openStore() (*sessions.Store, error) {
	dir := filepath.Join(w.Config().Home, "sessions")
	policy := map[string]sessions.SyncPolicy{"interval": sessions.SyncInterval, "never": sessions.SyncNever}[w.Config().Sessions.Sync]
	store, err := sessions.Open(dir, &sessions.Options{Redact: w.Secrets.Hide, Sync: policy, Log: w.Log})
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w; choose a directory that you can write with --home or GANDER_HOME", err)
	}
	return store, err
}

// Kept is all that is kept of sessions.
func (w *Wiring) Kept() (router.Kept, error) {
	store, err := w.Store()
	if err != nil {
		return router.Kept{}, err
	}
	runs, err := w.Runs()
	cfg := w.Config()
	return router.Kept{Store: store, Runs: runs, StateDir: cfg.Home, Snapshots: SnapshotsDir(cfg), MaxAge: time.Duration(cfg.Sessions.Runs.MaxDays) * 24 * time.Hour}, err
}

// Runs are the traces of turns.
func (w *Wiring) Runs() (*sessions.Runs, error) {
	keep := w.Config().Sessions.Runs
	return sessions.OpenRuns(filepath.Join(w.Config().Home, "runs"), &sessions.RunsOptions{
		Redact: w.Secrets.Hide, Keep: int(keep.Keep), MaxAge: time.Duration(keep.MaxDays) * 24 * time.Hour, Log: w.Log,
	})
}

// SnapshotsDir returns the directory of the files as they were before turns.
func SnapshotsDir(cfg *config.Config) string { return filepath.Join(cfg.Home, "snapshots") }

// KeepingOf returns the options for keeping files before turns; nil when none are kept.
func KeepingOf(cfg *config.Config) *changes.Options {
	if cfg.Changes.Off {
		return nil
	}
	return &changes.Options{
		Dir:      SnapshotsDir(cfg),
		MaxStore: cfg.Changes.MaxMiB << 20,
		Keep:     time.Duration(cfg.Changes.Keep),
	}
}

// Choose returns the choice as a project's own file narrows it.
func (w *Wiring) Choose(cwd string) (router.Choice, error) {
	user := w.Config()
	cfg, err := user.ForProject(cwd)
	if err != nil {
		return router.Choice{}, err
	}
	c := router.Choice{Agent: cfg.Agent, Sandbox: ChosenDriver(cfg.Sandbox.Driver, runtime.GOOS), Approve: cfg.Permissions}
	before, _ := user.Endpoint(cfg.Agent) // what is missing is said when the agent is asked
	if now, _ := cfg.Endpoint(cfg.Agent); now.Model != before.Model {
		c.Model = now.Model
	}
	return c, nil
}

// Settings hold the facts that every kind of agent wants to know.
type Settings = acpagent.Settings

// settingsOf is an agent as a configuration has it. One that is not on this machine
// may be in the image of its sandbox.
func settingsOf(cfg *config.Config, name string) (Settings, error) {
	command, missing := cfg.FindAgent(name)
	inImage := imageCommand(cfg, name, command, missing)
	if missing != nil && (len(inImage) == 0 || !HasImages(cfg)) {
		return Settings{}, missing
	}
	endpoint, err := cfg.Endpoint(name)
	if err != nil {
		return Settings{}, err
	}
	s, err := SettingsWith(cfg, name, command, endpoint)
	s.ImageCommand, s.Missing = inImage, missing
	return s, err
}

// imageCommand is what starts an agent that an image has: one that is not on this
// machine, or cannot run in a container as it is not a Linux program. It is empty
// when the program of this machine is to be used, or nothing is known.
func imageCommand(cfg *config.Config, name string, command []string, missing error) []string {
	wrong, _ := errors.AsType[*config.Error](missing)
	program := cfg.Program(name)
	own := cfg.Agents[program].Command
	switch {
	case missing == nil && runtime.GOOS == "linux":
		return nil
	case len(own) > 0 && (wrong == nil || wrong.Path == "agents."+program+".command"):
		return own
	case missing == nil:
		return append([]string{program}, command[1:]...)
	case errors.Is(missing, config.ErrNoAgent) && slices.Contains(cli.AgentNames(), program):
		return []string{program}
	}
	return nil
}

// SettingsWith is settingsOf with a command and a model that are known; without a
// command the agent is not on this machine.
func SettingsWith(cfg *config.Config, name string, command []string, endpoint config.Endpoint) (Settings, error) {
	env, err := certificateVariables(cfg)
	if err != nil {
		return Settings{}, err
	}
	var mounts []sandbox.Mount
	own := cfg.AgentSettings(name)
	if err := cfg.CheckAgentPaths(name); err != nil && cfg.Sandbox.Driver != sandbox.Off {
		return Settings{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(own.Env)) {
		env = append(env, name+"="+own.Env[name])
	}
	for _, path := range own.ReadOnlyPaths {
		mounts = append(mounts, sandbox.Mount{Path: path})
	}
	if len(command) > 0 {
		if real, err := filepath.EvalSymlinks(command[0]); err == nil {
			command = append([]string{real}, command[1:]...) // the link is not shown inside
		}
		mounts = append(mounts, ProgramMount(command[0])...)
	}
	s := Settings{
		Command: command,
		Inside:  cfg.InsideEnvironment,
		Env:     env,
		Model:   endpoint.Model,
		Mode:    own.Mode,
		OneShot: cfg.Agents[cfg.Program(name)].OneShot,
		Mounts:  outermost(mounts, cfg.Sandbox.ReadOnlyPaths),
	}
	skilled, links := showSkills(slices.DeleteFunc(cfg.FindSkills(name).Skills, func(s skills.Skill) bool { return s.Source != "agent "+name }))
	s.Mounts, s.HomeLinks = append(s.Mounts, skilled...), links
	for _, p := range cfg.Plugins() {
		if len(p.Servers) > 0 {
			s.Mounts = append(s.Mounts, sandbox.Mount{Path: p.Dir, Ruled: true})
		}
		for _, v := range p.Servers {
			server := acp.MCPServerStdio{Name: v.Name, Command: v.Command, Args: v.Args, Env: []acp.EnvVariable{}}
			for _, key := range slices.Sorted(maps.Keys(v.Env)) {
				server.Env = append(server.Env, acp.EnvVariable{Name: key, Value: v.Env[key]})
			}
			s.Servers = append(s.Servers, server)
		}
	}
	return s, employ(cfg, name, &s)
}

// employ gives an agent what its manifest says of it.
func employ(cfg *config.Config, name string, s *Settings) error {
	m := cfg.Manifest(name)
	if m == nil {
		return nil
	}
	s.Instructions = m.Instructions
	if m.WorkspaceAccess != roster.WorkspaceInternal {
		return nil
	}
	dir, err := cfg.Roster().MakeWorkspace(name)
	if err != nil {
		return fmt.Errorf("making the workspace of %s: %w; %s", name, err, cli.HomeAdvice)
	}
	s.Mounts = append(s.Mounts, sandbox.Mount{Path: dir, Writable: true, Ruled: true})
	s.Env = append(s.Env, WorkspaceVariable+"="+dir)
	s.Instructions = strings.TrimSpace(s.Instructions + "\n\nThe directory " + dir + " is your own, also in " + WorkspaceVariable + ": what you leave there is there the next time, in any project.")
	return nil
}

// WorkspaceVariable is the variable in which an agent finds the directory of its own.
const WorkspaceVariable = "GANDER_WORKSPACE"

// ProgramMount returns the mounts that a program needs to start: the program alone, because
// its directory may be anything (a person's home, say), or the whole npm package
// that it is part of. What else a program needs, readOnlyPaths name.
func ProgramMount(program string) []sandbox.Mount {
	if !filepath.IsAbs(program) || runtime.GOOS != "linux" { // containers cannot run another system's
		return nil
	}
	if dir := npmPackage(program); dir != "" {
		return []sandbox.Mount{{Path: dir}}
	}
	return []sandbox.Mount{{Path: program}}
}

// outermost leaves out the mounts that another one, or one of the paths that are
// shown anyway, already shows.
func outermost(mounts []sandbox.Mount, shown []string) []sandbox.Mount {
	inside := func(path, dir string) bool {
		rest, err := filepath.Rel(dir, path)
		return err == nil && rest != "." && filepath.IsLocal(rest)
	}
	var out []sandbox.Mount
	for i, m := range mounts {
		nested := slices.Contains(shown, m.Path) || slices.ContainsFunc(shown, func(dir string) bool { return inside(m.Path, dir) })
		for j, other := range mounts {
			nested = nested || inside(m.Path, other.Path) || j < i && other.Path == m.Path
		}
		if !nested {
			out = append(out, m)
		}
	}
	return out
}

// npmPackage is the directory of the innermost npm package that a file is in;
// empty when it is in none.
func npmPackage(file string) string {
	sep := string(filepath.Separator)
	root, inside, found := file, "", false
	if i := strings.LastIndex(file, sep+"node_modules"+sep); i >= 0 {
		root, inside, found = file[:i+len(sep+"node_modules")], file[i+len(sep+"node_modules"+sep):], true
	}
	parts := strings.Split(inside, sep)
	n := 1
	if strings.HasPrefix(inside, "@") {
		n = 2
	}
	if !found || len(parts) <= n {
		return ""
	}
	return filepath.Join(append([]string{root}, parts[:n]...)...)
}

// DockerOptions returns the options of the driver for containers.
func (w *Wiring) DockerOptions(cfg *config.Config) docker.Options {
	var image func(string) string
	if cfg.Sandbox.Image != "" {
		image = func(string) string { return cfg.Sandbox.Image }
	}
	return docker.Options{
		Image:         image,
		Host:          cli.Variable(w.Environ, "DOCKER_HOST"),
		Sockets:       docker.UsualSockets(cli.Variable(w.Environ, "HOME"), cli.Variable(w.Environ, "XDG_RUNTIME_DIR")),
		StateDir:      cfg.Home,
		CABundle:      caBundle(cfg),
		ReadOnlyPaths: cfg.Sandbox.ReadOnlyPaths,
		Devices:       cfg.Sandbox.Devices,
		Log:           w.Log,
	}
}

// caBundle is this machine's CA certificates; empty without any.
func caBundle(cfg *config.Config) string {
	if bundle := cfg.CABundle(); bundle != "" {
		return bundle
	}
	for _, path := range systemBundles() {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// retries reports whether an agent that gander brings calls the model again after a failure.
func retries(agent string) bool {
	r, ok := agents.Find(agent)
	return ok && r.Retries
}

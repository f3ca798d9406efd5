package main

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

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/agents/custom"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/goose"
	"gander.dev/gander/sandbox/opencode"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sessions"
)

// wiring puts the product together: the only place that knows which concrete
// agents, drivers and stores there are.
type wiring struct {
	log     *slog.Logger
	secrets *secrets
	environ []string
	ways    *confine.Ways
	// historyLimit and sessionPrefix are flags of gander acp, see router.Options.
	historyLimit  int
	sessionPrefix string

	// mu guards cfg, which changes with the configuration file.
	mu  sync.Mutex
	cfg *config.Config

	opening  sync.Once
	opened   *sessions.Store
	openFail error
}

func (a *app) wire() *wiring {
	return newWiring(a, false)
}

// newWiring returns a wiring; asks says that there is somebody to be asked about hosts.
func newWiring(a *app, asks bool) *wiring {
	w := &wiring{log: a.log, secrets: a.secrets, environ: a.environ, cfg: a.cfg}
	w.ways = confine.NewWays(w, confine.WaysOptions{StateDir: a.cfg.Home, Permissions: permit.Open(permissionsDir(a.cfg)), Asks: asks, Log: a.log})
	return w
}

func (w *wiring) config() *config.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cfg
}

func (w *wiring) setConfig(cfg *config.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cfg = cfg
}

// agentNames and sandboxChoices are what there is to choose from, besides the
// agents that a configuration adds.
func agentNames() []string { return []string{goose.Name, opencode.Name} }

func sandboxChoices() []string {
	return []string{router.Auto, "local", docker.Name, sandbox.Off}
}

// agents are offered in this order.
func (w *wiring) agents() []sandbox.Agent {
	var agents []sandbox.Agent
	for _, name := range w.config().AgentNames() {
		agents = append(agents, w.newAgent(name, func() (settings, error) { return settingsOf(w.config(), name) }))
	}
	return agents
}

// newAgent is the agent of a name, which asks for its settings each time it needs them.
func (w *wiring) newAgent(name string, get func() (settings, error)) sandbox.Agent {
	switch name {
	case goose.Name:
		return goose.New(get, goose.Options{Log: w.log})
	case opencode.Name:
		return opencode.New(get, opencode.Options{Log: w.log})
	}
	return custom.New(name, get, custom.Options{Log: w.log})
}

// agent finds one by name.
func (w *wiring) agent(name string) (sandbox.Agent, error) {
	for _, a := range w.agents() {
		if a.Name() == name {
			return a, nil
		}
	}
	return nil, usageError("there is no agent %q in this version of gander; choose one of: %s", name, strings.Join(w.config().AgentNames(), ", "))
}

// drivers are offered in this order.
func (w *wiring) drivers() []sandbox.Driver {
	cfg := w.config()
	o := local.Options{Log: w.log, StateDir: cfg.Home, ReadOnlyPaths: cfg.Sandbox.ReadOnlyPaths}
	container := docker.New(w.dockerOptions(cfg))
	if runtime.GOOS != "linux" {
		return []sandbox.Driver{container, local.New(o), local.NewOff(o)}
	}
	return []sandbox.Driver{local.New(o), container, local.NewOff(o)}
}

// chosenDriver is what a --sandbox choice means on a system. Auto is one driver,
// not the first that works: local on Linux, where it isolates and the project's own
// tools are, docker elsewhere, and never something weaker when that is missing.
func chosenDriver(choice, system string) string {
	switch {
	case choice != router.Auto:
		return choice
	case system == "linux":
		return "local"
	}
	return docker.Name
}

// driver resolves a --sandbox choice.
func (w *wiring) driver(name string) (sandbox.Driver, error) {
	chosen := chosenDriver(name, runtime.GOOS)
	for _, d := range w.drivers() {
		if d.Name() == chosen {
			return d, nil
		}
	}
	return nil, usageError("there is no sandbox %q in this version of gander; choose one of: %s", name, strings.Join(sandboxChoices(), ", "))
}

// Rules implements confine.Settings: what closes files in sandboxes beside a project's
// .gooseignore. The person's own file is goose's.
func (w *wiring) Rules() *sandbox.Rules {
	r := &sandbox.Rules{Optional: w.config().Sandbox.AllowWeaker}
	if dir := gooseConfigDir(w.environ); dir != "" {
		r.Own = filepath.Join(dir, ignore.FileName)
	}
	return r
}

// checkChoices fails when the configuration names an agent or a sandbox that
// this version does not have.
func (w *wiring) checkChoices() error { return w.checkChoicesOf(w.config()) }

func (w *wiring) checkChoicesOf(cfg *config.Config) error {
	_, err := w.agent(cfg.Agent)
	if err == nil {
		_, err = w.driver(cfg.Sandbox.Driver)
	}
	return err
}

// store is where conversations are kept. It is opened once, so that what one user of it
// has read of a transcript the others need not read again.
func (w *wiring) store() (*sessions.Store, error) {
	w.opening.Do(func() { w.opened, w.openFail = w.openStore() })
	return w.opened, w.openFail
}

func (w *wiring) openStore() (*sessions.Store, error) {
	dir := filepath.Join(w.config().Home, "sessions")
	policy := map[string]sessions.SyncPolicy{"interval": sessions.SyncInterval, "never": sessions.SyncNever}[w.config().Sessions.Sync]
	store, err := sessions.Open(dir, &sessions.Options{Redact: w.secrets.hide, Sync: policy, Log: w.log})
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w; choose a directory that you can write with --home or GANDER_HOME", err)
	}
	return store, err
}

// kept is all that is kept of sessions.
func (w *wiring) kept() (router.Kept, error) {
	store, err := w.store()
	if err != nil {
		return router.Kept{}, err
	}
	runs, err := w.runs()
	cfg := w.config()
	return router.Kept{Store: store, Runs: runs, StateDir: cfg.Home, Snapshots: snapshotsDir(cfg)}, err
}

// runs are the traces of turns.
func (w *wiring) runs() (*sessions.Runs, error) {
	keep := w.config().Sessions.Runs
	return sessions.OpenRuns(filepath.Join(w.config().Home, "runs"), &sessions.RunsOptions{
		Redact: w.secrets.hide, Keep: int(keep.Keep), MaxAge: time.Duration(keep.MaxDays) * 24 * time.Hour, Log: w.log,
	})
}

func (w *wiring) routerOptions(store *sessions.Store, runs *sessions.Runs) router.Options {
	cfg := w.config()
	return router.Options{
		Agents: w.agents(), Agent: cfg.Agent,
		Drivers: w.drivers(), Sandbox: chosenDriver(cfg.Sandbox.Driver, runtime.GOOS),
		Tools:          cfg.Tools,
		Choose:         w.choose,
		Terms:          w.ways,
		Changes:        keepingOf(cfg),
		Snapshots:      snapshotsDir(cfg),
		Setup:          w.setupOffer(),
		Store:          store,
		Permissions:    permit.Open(permissionsDir(cfg)),
		AllowServers:   cfg.MCP.Allow,
		ServerEnv:      serverEnv(w.environ),
		LearnSecrets:   w.secrets.learnAmong,
		HideSecrets:    w.secrets.hideIn,
		Runs:           runs,
		Loops:          w.loops(),
		StateDir:       cfg.Home,
		HistoryLimit:   w.historyLimit,
		SessionPrefix:  w.sessionPrefix,
		ReadOnly:       cfg.Sandbox.ReadOnlyPaths,
		Private:        []string{cfg.Model.APIKeyFile},
		Version:        version,
		CancelDeadline: time.Duration(cfg.CancelDeadline),
		Spares:         int(cfg.Sandbox.Pool),
		Log:            w.log,
	}
}

// snapshotsDir is where what files were before turns is kept.
func snapshotsDir(cfg *config.Config) string { return filepath.Join(cfg.Home, "snapshots") }

// keepingOf is what is kept of files before turns; nil when nothing is.
func keepingOf(cfg *config.Config) *changes.Options {
	if cfg.Changes.Off {
		return nil
	}
	return &changes.Options{
		Dir:      snapshotsDir(cfg),
		MaxStore: cfg.Changes.MaxMiB << 20,
		Keep:     time.Duration(cfg.Changes.Keep),
	}
}

// serverEnv is what the editor's MCP servers, which run outside of the sandboxes, have
// of gander's environment: what a program needs to be found and to find its files.
// Keys are for the editor to pass.
func serverEnv(environ []string) []string {
	known := []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
		"SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PATHEXT", "TEMP", "TMP", "COMSPEC", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE",
	}
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(known, strings.ToUpper(name))
	})
}

// choose is what a project's own file narrows the choice to.
func (w *wiring) choose(cwd string) (router.Choice, error) {
	user := w.config()
	cfg, err := user.ForProject(cwd)
	if err != nil {
		return router.Choice{}, err
	}
	c := router.Choice{Agent: cfg.Agent, Sandbox: chosenDriver(cfg.Sandbox.Driver, runtime.GOOS), Approve: cfg.Permissions}
	before, _ := user.Endpoint(cfg.Agent) // what is missing is said when the agent is asked
	if now, _ := cfg.Endpoint(cfg.Agent); now.Model != before.Model {
		c.Model = now.Model
	}
	return c, nil
}

// settings are what every kind of agent wants to know.
type settings = acpagent.Settings

// settingsOf is an agent as a configuration has it. One that is not on this machine
// may be in the image of its sandbox.
func settingsOf(cfg *config.Config, name string) (settings, error) {
	command, missing := cfg.FindAgent(name)
	inImage := imageCommand(cfg, name, command, missing)
	if missing != nil && (len(inImage) == 0 || chosenDriver(cfg.Sandbox.Driver, runtime.GOOS) != docker.Name) {
		return settings{}, missing
	}
	endpoint, err := cfg.Endpoint(name)
	if err != nil {
		return settings{}, err
	}
	s, err := settingsWith(cfg, name, command, endpoint)
	s.ImageCommand, s.Missing = inImage, missing
	return s, err
}

// imageCommand is what starts an agent that an image has: one that is not on this
// machine, or cannot run in a container as it is not a Linux program. It is empty
// when the program of this machine is to be used, or nothing is known.
func imageCommand(cfg *config.Config, name string, command []string, missing error) []string {
	wrong, _ := errors.AsType[*config.Error](missing)
	own := cfg.Agents[name].Command
	switch {
	case missing == nil && runtime.GOOS == "linux":
		return nil
	case len(own) > 0 && (wrong == nil || wrong.Path == "agents."+name+".command"):
		return own
	case missing == nil:
		return append([]string{name}, command[1:]...)
	case errors.Is(missing, config.ErrNoAgent) && slices.Contains(agentNames(), name):
		return []string{name}
	}
	return nil
}

// settingsWith is settingsOf with a command and a model that are known; without a
// command the agent is not on this machine.
func settingsWith(cfg *config.Config, name string, command []string, endpoint config.Endpoint) (settings, error) {
	env, mounts, err := insideEnv(cfg)
	if err != nil {
		return settings{}, err
	}
	own := cfg.Agents[name]
	if err := cfg.CheckAgentPaths(name); err != nil && cfg.Sandbox.Driver != sandbox.Off {
		return settings{}, err
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
		mounts = append(mounts, programMount(command[0])...)
	}
	return settings{
		Command: command,
		Env:     env,
		Model:   endpoint.Model,
		Mode:    own.Mode,
		Mounts:  outermost(mounts, cfg.Sandbox.ReadOnlyPaths),
	}, nil
}

// systemBundles are where systems keep their CA certificates.
func systemBundles() []string {
	return []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"}
}

// insideEnv is the environment that every program in a sandbox starts from: the
// allow-list of the configuration, nothing else of the host's.
func insideEnv(cfg *config.Config) ([]string, []sandbox.Mount, error) {
	env := cfg.InsideEnvironment()
	if bundle := cfg.CABundle(); bundle != "" {
		if _, err := os.Stat(bundle); err != nil {
			return nil, nil, fmt.Errorf("the CA certificates that SSL_CERT_FILE names cannot be read: %w; correct the variable or unset it", err)
		}
		return append(env, "SSL_CERT_FILE="+bundle), []sandbox.Mount{{Path: bundle}}, nil
	}
	if runtime.GOOS == "windows" { // which keeps them elsewhere, and programs know where
		return env, nil, nil
	}
	bundles := systemBundles()
	i := slices.IndexFunc(bundles, func(path string) bool { _, err := os.Stat(path); return err == nil })
	if i < 0 {
		return nil, nil, errors.New("this machine has no CA certificates, without which agents do not start; install the package ca-certificates, or name a bundle in SSL_CERT_FILE")
	}
	return append(env, "SSL_CERT_FILE="+bundles[i]), nil, nil
}

// programMount is what a program needs to be started: the program alone, because
// its directory may be anything (a person's home, say), or the whole npm package
// that it is part of. What else a program needs, readOnlyPaths name.
func programMount(program string) []sandbox.Mount {
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

package editor

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sessions"
)

func routerOptions(w *wire.Wiring, store *sessions.Store, runs *sessions.Runs) router.Options {
	cfg := w.Config()
	o := router.Options{
		Agents: w.Agents(), Agent: cfg.Agent, Crowd: new(router.Crowd),
		Drivers: w.Drivers(), Sandbox: wire.ChosenDriver(cfg.Sandbox.Driver, runtime.GOOS),
		Tools:          cfg.Tools,
		Choose:         w.Choose,
		Terms:          w.Ways,
		Changes:        wire.KeepingOf(cfg),
		Snapshots:      wire.SnapshotsDir(cfg),
		Setup:          setupOffer(w),
		Store:          store,
		Permissions:    permit.Open(wire.PermissionsDir(cfg)),
		AllowServers:   cfg.MCP.Allow,
		ServerPatience: time.Duration(cfg.MCP.Patience),
		ServerEnv:      serverEnv(w.Environ),
		LearnSecrets:   w.Secrets.LearnAmong,
		HideSecrets:    w.Secrets.HideIn,
		Runs:           runs,
		Loops:          w.Loops(),
		Commands:       func() []router.Command { return commands(w) },
		StateDir:       cfg.Home,
		HistoryLimit:   w.HistoryLimit,
		SessionPrefix:  w.SessionPrefix,
		ReadOnly:       cfg.Sandbox.ReadOnlyPaths,
		Ports:          cfg.OpenPorts(),
		Private:        cfg.KeyFiles(),
		Version:        cli.Version,
		Silence:        time.Duration(cfg.Silence),
		CancelDeadline: time.Duration(cfg.CancelDeadline),
		Spares:         int(cfg.Sandbox.Pool),
		Log:            w.Log,
	}
	o.Agents = append(o.Agents, w.Orchestrator(teamOf(w, o)))
	return o
}

// commands returns those of the enabled plugins.
func commands(w *wire.Wiring) []router.Command {
	var all []router.Command
	for _, p := range w.Config().Plugins() {
		for _, c := range p.Commands {
			all = append(all, router.Command{Name: c.Name, Hint: c.Hint, Description: c.Description, Prompt: c.Prompt})
		}
	}
	return all
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

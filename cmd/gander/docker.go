package main

import (
	"os"
	"strings"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/drivers/docker"
)

// dockerOptions are what the sandboxes in containers are made with.
func (w *wiring) dockerOptions(cfg *config.Config) docker.Options {
	var image func(string) string
	if cfg.Sandbox.Image != "" {
		image = func(string) string { return cfg.Sandbox.Image }
	}
	return docker.Options{
		Image:         image,
		Host:          variable(w.environ, "DOCKER_HOST"),
		Sockets:       docker.UsualSockets(variable(w.environ, "HOME"), variable(w.environ, "XDG_RUNTIME_DIR")),
		StateDir:      cfg.Home,
		CABundle:      caBundle(cfg),
		ReadOnlyPaths: cfg.Sandbox.ReadOnlyPaths,
		Log:           w.log,
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

// variable is the last value of a variable, as programs see it.
func variable(environ []string, name string) (value string) {
	for _, v := range environ {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

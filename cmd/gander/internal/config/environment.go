package config

import (
	"maps"
	"os/user"
	"runtime"
	"slices"
	"strings"

	"gander.dev/gander/cmd/gander/internal/redact"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/team/providers"
)

// environment is the variables by name.
type environment map[string]string

// newEnvironment reads "NAME=value" pairs; of two with one name the last counts.
func newEnvironment(environ []string) environment {
	env := make(environment, len(environ))
	for _, v := range environ {
		if name, value, ok := strings.Cut(v, "="); ok {
			if runtime.GOOS == "windows" {
				name = strings.ToUpper(name) // names are one in any case there
			}
			env[name] = value
		}
	}
	return env
}

// first is the first of the variables that is set and not empty, and its value.
func (env environment) first(names ...string) (name, value string) {
	for _, name := range names {
		if v := strings.TrimSpace(env[name]); v != "" {
			return name, v
		}
	}
	return "", ""
}

// PersonalDir is the home directory of the person: a variable's, else the system's.
func PersonalDir(environ []string) (string, error) { return newEnvironment(environ).personalDir() }

// PersonalVariable names the variable that says where the person's home directory is.
func PersonalVariable() string {
	if runtime.GOOS == "windows" {
		return "USERPROFILE"
	}
	return "HOME"
}

// personalDir is the home directory of the person.
func (env environment) personalDir() (string, error) {
	if dir := env[PersonalVariable()]; dir != "" {
		return dir, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

// Secrets are the values that must not be written anywhere: those of variables
// whose names end in KEY, TOKEN, SECRET or PASSWORD, the key wherever the user's file
// says it is, those of the headers that go with it, and where notices go.
func (c *Config) Secrets() []string {
	environ := append([]string{}, c.o.Environ...)
	secrets := []string{c.Model.APIKey.Reveal(), c.env[c.Model.APIKeyEnv], c.Notify.URL.Reveal(), c.env[c.Notify.TokenEnv]}
	for _, file := range c.KeyFiles() {
		secrets = append(secrets, c.keys[file].key.Reveal())
	}
	for _, p := range providers.All() {
		secrets = append(secrets, c.env[p.KeyVariable])
	}
	secrets = append(secrets, headerValues(c.Model.Headers)...)
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		secrets = append(secrets, c.env[c.Providers[name].APIKeyEnv])
		secrets = append(secrets, headerValues(c.Providers[name].Headers)...)
	}
	for _, s := range secrets {
		environ = append(environ, "MODEL_SECRET="+s)
	}
	return redact.Secrets(environ)
}

func headerValues(headers map[string]Secret) []string {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		values = append(values, headers[name].Reveal())
	}
	return values
}

// OpenPorts returns what Sandbox.Ports names, which was checked.
func (c *Config) OpenPorts() (all []ports.Spec) {
	for _, text := range c.Sandbox.Ports {
		if s, err := ports.Parse(text); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// SandboxEnvironment is what is passed into sandboxes: "NAME=value" of the
// variables of Sandbox.Environment that are set.
func (c *Config) SandboxEnvironment() []string {
	var pairs []string
	for _, name := range c.Sandbox.Environment {
		if value, ok := c.env[name]; ok {
			pairs = append(pairs, name+"="+value)
		}
	}
	return pairs
}

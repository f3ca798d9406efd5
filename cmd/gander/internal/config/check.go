package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/redact"

	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/rules/devices"
	"gander.dev/gander/sandbox/team/providers"
)

// check fails for values that have the right type and make no sense. It looks
// only at those that the file has set.
func (d *decoder) check(c *Config) {
	if d.wasSet("agent") && c.Agent != "" {
		if why := c.NotAgent(c.Agent); why != "" {
			d.failAt("agent", errors.New(why))
		}
	}
	if d.wasSet("model.host") && c.Model.Host != "" {
		if err := checkURL(c.Model.Host); err != nil {
			d.failAt("model.host", err)
		}
	}
	d.checkKey(c)
	d.checkHeaders("model.headers", c.Model.Headers)
	d.checkProviders(c)
	if t := time.Duration(c.MCP.Patience); d.wasSet("mcp.patience") && (t < time.Second || t > 30*time.Second) {
		d.failAt("mcp.patience", fmt.Errorf("%v is out of range; want 1s to 30s", t))
	}
	if u, err := url.Parse(c.Notify.URL.Reveal()); d.wasSet("notify.url") && c.Notify.URL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		d.failAt("notify.url", errors.New("not a URL that begins with http:// or https:// and names a host"))
	}
	if d.wasSet("notify.page") && c.Notify.Page != "" {
		if err := checkURL(c.Notify.Page); err != nil {
			d.failAt("notify.page", err)
		}
	}
	if t := time.Duration(c.Silence); d.wasSet("silence") && (t < 5*time.Second || t > time.Hour) {
		d.failAt("silence", fmt.Errorf("%v is out of range; want 5s to 1h", t))
	}
	if d.wasSet("cancelDeadline") {
		if t := time.Duration(c.CancelDeadline); t < 100*time.Millisecond || t > time.Minute {
			d.failAt("cancelDeadline", fmt.Errorf("%v is out of range; want 100ms to 1m", t))
		}
	}
	if p := c.Orchestrator.Planner; p != "" && d.wasSet("orchestrator.planner") && !slices.Contains(append(c.programs(), d.team...), p) {
		d.failAt("orchestrator.planner", fmt.Errorf("there is no agent %q; choose one of %s", p, strings.Join(append(c.programs(), d.team...), ", ")))
	}
	l := c.Orchestrator.Limits
	for _, limit := range []struct {
		key  string
		n    int64
		most int64
	}{{"steps", l.Steps, 200}, {"delegations", l.Delegations, 100}, {"parallel", l.Parallel, 8}, {"repeats", l.Repeats, 20}} {
		if at := "orchestrator.limits." + limit.key; d.wasSet(at) && (limit.n < 1 || limit.n > limit.most) {
			d.failAt(at, fmt.Errorf("%d is out of range; want 1 to %d", limit.n, limit.most))
		}
	}
	if t := time.Duration(l.Time); d.wasSet("orchestrator.limits.time") && (t < 10*time.Second || t > 24*time.Hour) {
		d.failAt("orchestrator.limits.time", fmt.Errorf("%v is out of range; want 10s to 24h", t))
	}
	if h := c.Sessions.Reset.AtHour; d.wasSet("sessions.reset.atHour") && h > 23 {
		d.failAt("sessions.reset.atHour", fmt.Errorf("%d is not an hour of the day; want 0 to 23", h))
	}
	d.each("sandbox.devices", c.Sandbox.Devices, devices.Check)
	d.each("sandbox.ports", c.Sandbox.Ports, ports.Check)
	if n := c.Sandbox.Pool; d.wasSet("sandbox.pool") && n > MaxPool {
		d.failAt("sandbox.pool", fmt.Errorf("%d is too many; want 0 to %d", n, MaxPool))
	}
	if d.wasSet("sessions.runs.keep") && c.Sessions.Runs.Keep < 1 {
		d.failAt("sessions.runs.keep", errors.New("want at least 1"))
	}
	if d.wasSet("changes.keep") && time.Duration(c.Changes.Keep) < time.Hour {
		d.failAt("changes.keep", fmt.Errorf("%v is too short; want 1h or more, or switch it off by changes.off", c.Changes.Keep))
	}
	if d.wasSet("changes.maxMiB") && (c.Changes.MaxMiB < 1 || c.Changes.MaxMiB > 1<<20) {
		d.failAt("changes.maxMiB", fmt.Errorf("%d is out of range; want 1 to %d", c.Changes.MaxMiB, 1<<20))
	}
	if d.wasSet("log.file") {
		c.Log.File = d.checkPath("log.file", c.Log.File, c.env)
	}
	for i, p := range c.Sandbox.ReadOnlyPaths {
		c.Sandbox.ReadOnlyPaths[i] = d.checkPath(fmt.Sprintf("sandbox.readOnlyPaths[%d]", i), p, c.env)
	}
	for i, name := range c.Sandbox.Environment {
		d.checkName(fmt.Sprintf("sandbox.environment[%d]", i), name)
	}
	d.checkPolicy(c)
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		d.checkAgent(c, name)
	}
}

func (d *decoder) checkAgent(c *Config, name string) {
	path, a := "agents."+name, c.Agents[name]
	d.checkChosen(c, path+".provider", a.Provider)
	for i, p := range a.ReadOnlyPaths {
		a.ReadOnlyPaths[i] = d.checkPath(fmt.Sprintf("%s.readOnlyPaths[%d]", path, i), p, c.env)
	}
	if !isBuiltIn(name) {
		d.checkCustom(path, a)
		return
	}
	if d.wasSet(path+".oneShot") && a.OneShot {
		d.failAt(path+".oneShot", fmt.Errorf("%s speaks ACP; give the program that does not a name of its own", name))
	}
	if d.wasSet(path+".protocol") && a.Protocol != providers.OpenAI && a.Protocol != "" {
		d.failAt(path+".protocol", fmt.Errorf("%s speaks no other protocol than %s", name, providers.OpenAI))
	}
	if d.wasSet(path+".command") && (len(a.Command) == 0 || strings.TrimSpace(a.Command[0]) == "") {
		d.failAt(path+".command", errors.New(`is empty; want the program and its arguments, like ["/opt/goose"]`))
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		d.checkName(join(path+".env", name), name)
	}
}

func (d *decoder) wasSet(path string) bool {
	_, ok := d.places[path]
	return ok
}

// failAt reports err where the file sets path.
func (d *decoder) failAt(path string, err error) {
	d.fail(d.places[path], path, "%s", err)
}

// checkPath returns an absolute path; "~/" stands for the person's directory.
func (d *decoder) checkPath(path, value string, env environment) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		if dir, err := env.personalDir(); err == nil {
			value = filepath.Join(dir, rest)
		}
	}
	if !filepath.IsAbs(value) && d.wasSet(path) {
		d.failAt(path, fmt.Errorf(`%q is not an absolute path; begin it with "/" or "~/"`, value))
	}
	return value
}

// checkName fails for what is not a variable's name, or a secret's.
func (d *decoder) checkName(path, name string) {
	switch {
	case !d.wasSet(path):
	case !isVariable(name):
		d.failAt(path, fmt.Errorf("%q is not the name of a variable", name))
	case redact.IsSecretName(name):
		d.failAt(path, fmt.Errorf("%s holds a secret by its name, and no secret enters a sandbox; the model's key goes into LLM_API_KEY and stays outside", name))
	}
}

func isVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// checkURL says what is wrong with the base URL of an endpoint. It does not
// repeat what could be a password.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("not a URL; want one like https://llm.example, without /v1")
	case u.User != nil:
		return errors.New("the URL contains a user name or password; the key goes into LLM_API_KEY")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("not a URL that begins with http:// or https:// and names a host")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("the URL has a query or a fragment; want only its beginning, like https://llm.example, without /v1")
	}
	return nil
}

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/rules/policy"
)

// layers are the sections "policy" of the files.
type layers struct {
	person, project policy.Layer
	origin          func(path string) (policy.Origin, bool) // of any key of the person's file
	granted         []policy.Request                        // to the project's file as it is; nil when it is not trusted
}

func (l *layers) add(project bool, p policy.Policy, d *decoder) {
	layer := policy.Layer{Policy: p, Set: func(key string) (policy.Origin, bool) { return d.origin("policy." + key) }}
	if project {
		l.project = layer
		return
	}
	l.person, l.origin = layer, d.origin
}

// origin is where the file sets a key.
func (d *decoder) origin(path string) (policy.Origin, bool) {
	offset, ok := d.places[path]
	if !ok {
		return policy.Origin{}, false
	}
	line, _ := position(d.data, offset)
	return policy.Origin{File: d.file, Line: line}, true
}

// mergePolicy makes the policy that holds of what the files say. The lists of
// Sandbox are older names of two of it; both names show what holds.
func (c *Config) mergePolicy() {
	person := c.layers.person
	if set := person.Set; set != nil {
		older := map[string]string{}
		join := func(key string, values, more []string) []string {
			for i := range more {
				older[fmt.Sprintf("%s[%d]", key, len(values)+i)] = fmt.Sprintf("sandbox.%s[%d]", key, i)
			}
			return slices.Concat(values, more)
		}
		person.ReadOnlyPaths = join("readOnlyPaths", person.ReadOnlyPaths, c.Sandbox.ReadOnlyPaths)
		person.Environment = join("environment", person.Environment, c.Sandbox.Environment)
		person.Set = func(key string) (policy.Origin, bool) {
			if name := older[key]; name != "" {
				return c.layers.origin(name)
			}
			return set(key)
		}
	}
	c.holds = policy.Merge(person, c.layers.project, c.layers.granted)
	c.Policy = c.holds.Policy
	c.Sandbox.ReadOnlyPaths, c.Sandbox.Environment = c.Policy.ReadOnlyPaths, c.Policy.Environment
}

// EffectivePolicy is Policy with where each part of it comes from, and what the
// project's file asks for and was not granted.
func (c *Config) EffectivePolicy() *policy.Effective { return c.holds }

// ProjectTrusted reports whether the person has trusted the project's file as it is.
func (c *Config) ProjectTrusted() bool { return c.layers.granted != nil }

// Trust remembers that the person grants the project's file, as it was read, what it asks
// for and was not granted yet.
func (c *Config) Trust() error {
	return c.TrustStore().Trust(c.o.ProjectDir, c.project, slices.Concat(c.layers.granted, c.holds.Refused))
}

// ProjectFileContent is what the project's file said when it was read; nil without one.
func (c *Config) ProjectFileContent() []byte { return c.project }

// TrustStore is where it is remembered which projects' files are trusted.
func (c *Config) TrustStore() policy.TrustStore {
	return policy.TrustStore{Dir: filepath.Join(c.Home, "trusted")}
}

// CheckReadOnlyPaths fails for a path that sandboxes are to see and that is not there:
// none could be made.
func (c *Config) CheckReadOnlyPaths() error {
	for _, path := range c.Policy.ReadOnlyPaths {
		if err := checkShown("readOnlyPaths in "+c.holds.Origin("readOnlyPaths", path).String(), path); err != nil {
			return err
		}
	}
	return nil
}

// CheckAgentPaths is CheckReadOnlyPaths for those that an agent's sandboxes see besides.
func (c *Config) CheckAgentPaths(agent string) error {
	key := "agents." + agent + ".readOnlyPaths"
	for _, path := range c.AgentSettings(agent).ReadOnlyPaths {
		if err := checkShown(key+" in "+c.SetIn(key), path); err != nil {
			return err
		}
	}
	return nil
}

func checkShown(setting, path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s names %s, which is not there; take it out or make it", setting, path)
	}
	return nil
}

// checkPolicy fails for values of the section that make no sense.
func (d *decoder) checkPolicy(c *Config) {
	p := &c.Policy
	for i, path := range p.ReadOnlyPaths {
		p.ReadOnlyPaths[i] = d.checkPath(fmt.Sprintf("policy.readOnlyPaths[%d]", i), path, c.env)
	}
	for i, name := range p.Environment {
		d.checkName(fmt.Sprintf("policy.environment[%d]", i), name)
	}
	d.each("policy.writes.protect", p.Writes.Protect, policy.CheckEntry)
	d.each("policy.writes.allow", p.Writes.Allow, policy.CheckEntry)
	d.each("policy.network.allow", p.Network.Allow, checkHost)
	d.each("policy.model.allow", p.Model.Allow, func(name string) error {
		if strings.TrimSpace(name) == "" {
			return errors.New("is empty; want the name of a model, or its beginning and *")
		}
		return nil
	})
	if n := p.Limits.CPU; d.wasSet("policy.limits.cpu") && n > 0 && n < leastCPU {
		d.failAt("policy.limits.cpu", fmt.Errorf("%v of a processor is less than kernels give; want %v or more", n, leastCPU))
	}
	if c := p.Model.Currency; c != "" && !currencyCode.MatchString(c) {
		d.failAt("policy.model.currency", fmt.Errorf("%q is no code of a currency; want three capital letters, as in USD", c))
	}
}

// leastCPU is the smallest part of a processor that Linux and Docker bound to.
const leastCPU = 0.01

// currencyCode is what codes of ISO 4217 look like.
var currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)

// each checks the entries of a list.
func (d *decoder) each(path string, values []string, check func(string) error) {
	for i, v := range values {
		if err := check(v); err != nil {
			d.failAt(fmt.Sprintf("%s[%d]", path, i), err)
		}
	}
}

// checkHost is what an entry of policy.network.allow is.
func checkHost(entry string) error {
	_, err := egress.ParseRule(entry)
	return err
}

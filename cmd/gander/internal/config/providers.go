package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"gander.dev/gander/sandbox/team/providers"
	"gander.dev/gander/sandbox/team/roster"
)

// Provider is an endpoint of models under a name. Of one that the table has, what is empty is
// as it is there.
type Provider struct {
	BaseURL string `json:"baseUrl"`
	// Exact says that BaseURL is the root of the API, so that no version is added to it.
	Exact bool `json:"exact"`
	// APIKeyEnv names the variable that holds the key, APIKeyFile is the absolute path of a file
	// with it. At most one is set.
	APIKeyEnv  string `json:"apiKeyEnv"`
	APIKeyFile string `json:"apiKeyFile"`
	// KeyHeader takes the key as it is; empty means Authorization with a bearer token.
	KeyHeader string `json:"keyHeader"`
	// Protocol is that of its calls: OpenAI's, or Anthropic's Messages.
	Protocol string            `json:"protocol" enum:"openai,anthropic"`
	Headers  map[string]Secret `json:"headers"`
	Model    string            `json:"model"`
}

// ProviderNames are the names of the table and of the configuration, sorted.
func (c *Config) ProviderNames() []string {
	names := slices.Collect(maps.Keys(c.Providers))
	for _, p := range providers.All() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// provider returns the settings of a provider, by any of its names.
func (c *Config) provider(name string) Provider {
	if p, is := c.Providers[name]; is {
		return p
	}
	row, _ := providers.Find(name)
	return c.Providers[row.Name]
}

// notProvider says why a name is none of a provider that can be used; empty when it is one.
func (c *Config) notProvider(name string) string {
	row, known := providers.Find(name)
	switch {
	case known && row.Not != "":
		return fmt.Sprintf("%s cannot be used: %s", name, row.Not)
	case !known && c.Providers[name].BaseURL == "":
		return fmt.Sprintf("there is no provider %q; gander provider list shows them, and providers.%[1]s.baseUrl of config.json adds one", name)
	}
	return ""
}

// NotProvider is an error for a name that is none of a provider that can be used.
func (c *Config) NotProvider(name string) error {
	if why := c.notProvider(name); why != "" {
		return errors.New(why)
	}
	return nil
}

// boundTo names the provider that an agent is bound to by its manifest or its own settings.
func (c *Config) boundTo(agent string) string {
	if c.OnlyTalks(agent) {
		return c.Manifest(agent).Provider
	}
	if m := c.Manifest(agent); m != nil && m.Endpoint != "" {
		return m.Endpoint
	}
	return cmp.Or(c.Agents[agent].Provider, c.Agents[c.Program(agent)].Provider)
}

// providerOf names the provider of an agent's model calls; empty where an address says where
// they go. LLM_HOST is before the provider that is chosen for all, not before one that an agent
// is bound to: it is another account.
func (c *Config) providerOf(agent string) string {
	if name := c.boundTo(agent); name != "" {
		return name
	}
	if _, host := c.env.first(hostVariables(c.Program(agent))...); host != "" {
		return ""
	}
	return c.Model.Provider
}

// boundModel returns the model of an agent that is bound to a provider.
func (c *Config) boundModel(agent, provider string) (model, source string) {
	name, variable := c.env.first(modelVariable(agent))
	own := "agents." + agent + ".model"
	set := [][2]string{{variable, name}}
	if m := c.Manifest(agent); m != nil {
		set = append(set, [2]string{m.Model, "model in " + m.Path})
	}
	set = append(set, [2]string{c.Agents[agent].Model, own + " in " + c.SetIn(own)}, [2]string{c.provider(provider).Model, "providers." + provider + ".model in " + c.userPath()})
	for _, m := range set {
		if m[0] != "" {
			return m[0], m[1]
		}
	}
	return "", ""
}

// providerEndpoint is Endpoint for an agent whose calls go to a provider.
func (c *Config) providerEndpoint(agent, name string) (Endpoint, error) {
	e, err := c.ProviderEndpoint(name)
	e.Model = c.model(agent)
	if !e.Exact {
		e.BaseURL = baseURL(c.Program(agent), e.BaseURL)
	}
	if err == nil && !c.OnlyTalks(agent) { // which speaks all of them
		err = c.speaks(c.Program(agent), e.Protocol, "the provider "+name)
	}
	if err == nil && e.Model == "" {
		err = fmt.Errorf("%w is chosen for %s: set providers.%s.model in %s, or use --model", ErrNoModel, agent, name, c.userPath())
	}
	return e, err
}

// ProviderEndpoint is the endpoint of a provider with its own model. Without a key that it
// needs, there is an error with everything else in place.
func (c *Config) ProviderEndpoint(name string) (Endpoint, error) {
	if why := c.notProvider(name); why != "" {
		return Endpoint{Provider: name}, &Error{Path: "provider", Reason: why}
	}
	row, _ := providers.Find(name)
	own := c.provider(name)
	e := Endpoint{
		Provider: name, BaseURL: strings.TrimRight(cmp.Or(own.BaseURL, row.BaseURL), "/"), Exact: own.Exact || own.BaseURL == "" && row.Exact,
		Protocol: cmp.Or(own.Protocol, row.Protocol, providers.OpenAI), KeyHeader: cmp.Or(own.KeyHeader, row.KeyHeader), Headers: map[string]Secret{}, Model: own.Model,
	}
	for header, value := range row.Headers {
		e.Headers[header] = Secret(value)
	}
	maps.Copy(e.Headers, own.Headers)
	if own.BaseURL == "" && len(row.Places()) > 0 {
		e.BaseURL = ""
		return e, fmt.Errorf("%w: %s has an address of your own, of the form %s; run gander setup --provider %s, or set providers.%[4]s.baseUrl in %s", ErrNoHost, row.Title, row.BaseURL, name, c.userPath())
	}
	variable := cmp.Or(own.APIKeyEnv, row.KeyVariable)
	switch file := c.keys[own.APIKeyFile]; {
	case own.APIKeyFile != "":
		e.APIKey, e.KeySource = file.key, own.APIKeyFile
		if file.err != nil {
			return e, &Error{Path: "providers." + name + ".apiKeyFile", Reason: file.err.Error()}
		}
	case variable != "":
		e.APIKey, e.KeySource = Secret(strings.TrimSpace(c.env[variable])), variable
		if e.APIKey == "" {
			return e, fmt.Errorf("%w for %s: the variable %s, which should hold it, is not set here; set it where gander is started, or keep the key in a file: gander setup --provider %s --store-key", ErrNoKey, name, variable, name)
		}
	}
	return e, nil
}

// speaks fails for an agent whose model calls are of another protocol than those of an endpoint.
func (c *Config) speaks(program, protocol, endpoint string) error {
	own := cmp.Or(c.Agents[program].Protocol, providers.OpenAI)
	if own == protocol {
		return nil
	}
	return fmt.Errorf("%s calls models by the protocol %s, and %s speaks %s: name one that speaks %[2]s in agents.%[1]s.provider of %[5]s; gander provider list shows them",
		program, own, endpoint, protocol, c.userPath())
}

// ErrNoKey means that a provider needs a key and there is none.
var ErrNoKey = errors.New("no key")

// checkProviders fails for providers that make no sense.
func (d *decoder) checkProviders(c *Config) {
	d.checkChosen(c, "model.provider", c.Model.Provider)
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		path, p := "providers."+name, c.Providers[name]
		row, known := providers.Find(name)
		switch {
		case !d.wasSet(path) && !d.isGroup(path):
			continue
		case roster.CheckID(name) != "":
			d.failAt(path, fmt.Errorf("%q cannot be a provider's name; want small letters, digits and dashes", name))
		case known && row.Not != "":
			d.failAt(path, fmt.Errorf("%s cannot be used: %s", name, row.Not))
		case !known && p.BaseURL == "":
			d.failAt(path, fmt.Errorf("no endpoint of that name is known: set its baseUrl, or choose one of %s", strings.Join(usable(), ", ")))
		}
		if p.BaseURL != "" && d.wasSet(path+".baseUrl") {
			if err := checkURL(p.BaseURL); err != nil {
				d.failAt(path+".baseUrl", err)
			}
		}
		if p.APIKeyEnv != "" && d.wasSet(path+".apiKeyEnv") && !isVariable(p.APIKeyEnv) {
			d.failAt(path+".apiKeyEnv", errors.New("is not the name of a variable; the key itself does not belong here"))
		}
		if p.APIKeyFile != "" && d.wasSet(path+".apiKeyFile") {
			p.APIKeyFile = d.checkPath(path+".apiKeyFile", p.APIKeyFile, c.env)
			c.Providers[name] = p
		}
		if p.APIKeyEnv != "" && p.APIKeyFile != "" {
			d.failAt(path+".apiKeyFile", fmt.Errorf("the key has one place; take out %s.apiKeyEnv or %[1]s.apiKeyFile", path))
		}
		if p.KeyHeader != "" && d.wasSet(path+".keyHeader") && !httpguts.ValidHeaderFieldName(p.KeyHeader) {
			d.failAt(path+".keyHeader", fmt.Errorf("%q is not the name of a header", p.KeyHeader))
		}
		d.checkHeaders(path+".headers", p.Headers)
	}
}

// checkChosen fails for a key that names no provider.
func (d *decoder) checkChosen(c *Config, path, name string) {
	if name == "" || !d.wasSet(path) {
		return
	}
	if why := c.notProvider(name); why != "" {
		d.failAt(path, errors.New(why))
	}
}

// usable are the names of the table's rows that can be used.
func usable() []string {
	var names []string
	for _, p := range providers.All() {
		if p.Not == "" {
			names = append(names, p.Name)
		}
	}
	return names
}

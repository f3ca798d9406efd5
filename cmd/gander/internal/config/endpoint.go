package config

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/team/providers"
)

var (
	// ErrNoHost means that no model endpoint is configured.
	ErrNoHost = errors.New("no model endpoint")
	// ErrNoModel means that no model is chosen.
	ErrNoModel = errors.New("no model")
)

// Endpoint is where an agent's model calls go.
type Endpoint struct {
	// BaseURL has no slash at the end. It ends in /v1 for the agents that want it so, never for others.
	BaseURL string
	// APIKey may be empty: local servers need none. KeySource is as in Key.
	APIKey    Secret
	KeySource string
	// KeyHeader takes the key as it is; empty means a bearer token.
	KeyHeader string
	// Exact says that BaseURL is the root of the API.
	Exact bool
	// Protocol is one of those of package providers; empty means OpenAI.
	Protocol string
	// Provider names the one that was chosen; empty where an address was.
	Provider string
	// Headers are sent with it.
	Headers map[string]Secret
	// Model is the model's plain name.
	Model string
}

// Endpoint is the model endpoint for an agent, of which the environment decides
// before the user's file. Without an address the error is ErrNoHost, without a
// model ErrNoModel, with everything else in place; so it is when Key fails.
func (c *Config) Endpoint(agent string) (Endpoint, error) {
	if name := c.providerOf(agent); name != "" {
		return c.providerEndpoint(agent, name)
	}
	key, noKey := c.Key()
	e := Endpoint{APIKey: key.Value, KeySource: key.Source, Headers: c.Model.Headers, Model: c.model(agent)}
	agent = c.Program(agent)
	source, host := c.env.first(hostVariables(agent)...)
	if host == "" {
		source, host = "model.host", c.Model.Host
	}
	if host == "" {
		return e, fmt.Errorf("%w is configured for %s: run gander setup, or set %s, or model.host in %s",
			ErrNoHost, agent, strings.Join(hostVariables(agent), " or "), c.userPath())
	}
	if err := checkURL(host); err != nil {
		return e, &Error{Path: source, Reason: err.Error()}
	}
	e.BaseURL = baseURL(agent, host)
	if err := c.speaks(agent, providers.OpenAI, source); err != nil {
		return e, err
	}
	if e.Model == "" {
		return e, fmt.Errorf("%w is chosen for %s: run gander setup, or set %s, use --model, or set model.model in %s",
			ErrNoModel, agent, modelVariable(agent), c.userPath())
	}
	return e, noKey
}

// notForHeaders are the headers that say how a call is sent, in lower case.
func notForHeaders() []string {
	return []string{"host", "connection", "content-length", "content-encoding", "transfer-encoding", "te", "trailer", "upgrade", "expect"}
}

// checkHeaders fails for headers below a key that cannot be sent. It does not repeat a value.
func (d *decoder) checkHeaders(key string, headers map[string]Secret) {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		path, value, folded := join(key, name), headers[name].Reveal(), strings.ToLower(name)
		switch {
		case !d.wasSet(path):
		case !httpguts.ValidHeaderFieldName(name):
			d.failAt(path, fmt.Errorf("%q is not the name of a header", name))
		case slices.Contains(notForHeaders(), folded):
			d.failAt(path, errors.New("is not for you to choose: it says how a call is sent"))
		case seen[folded]:
			d.failAt(path, errors.New("is there twice: case does not count in the names of headers"))
		case value == "":
			d.failAt(path, errors.New("is empty; take it out, or give it a value"))
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
			d.failAt(path, errors.New("a header's value is one line of text"))
		}
		seen[folded] = true
	}
}

// baseURL is the host as the agent wants it.
func baseURL(agent, host string) string {
	if known, _ := agents.Find(agent); known.HostEndsInV1 {
		return withV1(host)
	}
	return withoutV1(host)
}

func withoutV1(host string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(host, "/"), "/v1"), "/")
}

func withV1(host string) string {
	host = withoutV1(host)
	if isVersion.MatchString(path.Base(host)) {
		return host // it is the root of the API already
	}
	return host + "/v1"
}

var isVersion = regexp.MustCompile(`^v[0-9][0-9a-z]*$`)

func hostVariables(agent string) []string {
	return []string{variablePrefix(agent) + "_LLM_HOST", "LLM_HOST"}
}

func modelVariable(agent string) string {
	return variablePrefix(agent) + "_MODEL"
}

// model is the model for an agent: flag, environment, manifest, then the project's file and
// the user's, in each the agent's own setting before the general one. Where nothing is said of
// an agent that a manifest has, what is said of its program counts.
func (c *Config) model(agent string) string {
	model, _ := c.modelFrom(agent)
	return model
}

// ModelSource is what decides the model for an agent: a flag, a variable or a key
// of a file; empty when nothing does.
func (c *Config) ModelSource(agent string) string {
	_, source := c.modelFrom(agent)
	return source
}

func (c *Config) modelFrom(agent string) (model, source string) {
	if bound := c.boundTo(agent); bound != "" && c.o.Flags.Model == "" {
		return c.boundModel(agent, bound)
	}
	if program := c.Program(agent); program != agent && c.o.Flags.Model == "" {
		m, own := c.Manifest(agent), "agents."+agent+".model"
		name, variable := c.env.first(modelVariable(agent))
		for _, m := range [][2]string{{variable, name}, {m.Model, "model in " + m.Path}, {c.Agents[agent].Model, own + " in " + c.SetIn(own)}} {
			if m[0] != "" {
				return m[0], m[1]
			}
		}
		agent = program
	}
	name, variable := c.env.first(modelVariable(agent))
	known, _ := agents.Find(agent)
	variable = strings.TrimPrefix(variable, known.ModelPrefix) // names the provider that gander sets up
	own, general := "agents."+agent+".model", "model.model"
	set := [][2]string{{c.Agents[agent].Model, own + " in " + c.SetIn(own)}, {c.Model.Model, general + " in " + c.SetIn(general)}}
	if project := filepath.Join(c.o.ProjectDir, ProjectFile); c.SetIn(general) == project && c.SetIn(own) != project {
		slices.Reverse(set)
	}
	if m := c.Manifest(agent); m != nil {
		set = slices.Insert(set, 0, [2]string{m.Model, "model in " + m.Path})
	}
	if p := c.Model.Provider; p != "" {
		set = append(set, [2]string{c.provider(p).Model, "providers." + p + ".model in " + c.userPath()})
	}
	for _, m := range append([][2]string{{c.o.Flags.Model, "--model"}, {variable, name}}, set...) {
		if m[0] != "" {
			return m[0], m[1]
		}
	}
	return "", ""
}

// SetIn is the file that decides a key ("agents.goose.model"); empty when no file
// sets it.
func (c *Config) SetIn(key string) string { return c.sources[key] }

package setup

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"regexp"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/clients"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/team/providers"
)

// usableProviders returns the names of the endpoints that can be set up.
func usableProviders() []string {
	var names []string
	for _, p := range providers.All() {
		if p.Not == "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// givenProvider is given for an endpoint that is chosen by its name.
func givenProvider(a *cli.App, cfg *config.Config, f setupFlags) (answers, error) {
	row, known := providers.Find(f.provider)
	if err := cfg.NotProvider(f.provider); err != nil {
		return answers{}, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if !known { // one of the person's own
		row.Name, row.Title = f.provider, f.provider
	}
	own := cfg.Providers[row.Name]
	g := answers{
		provider: &row, host: cmp.Or(f.host, own.BaseURL), model: cmp.Or(f.model, own.Model),
		agent: cfg.Agent, sandbox: cfg.Sandbox.Driver, keyEnv: own.APIKeyEnv, keyFile: own.APIKeyFile,
	}
	if g.host == "" && len(row.Places()) == 0 {
		g.host = row.BaseURL
	}
	return withKey(a, cfg, f, g, row.KeyVariable, g.storedKey(cfg))
}

// storedKey is the file that a key is written to.
func (g *answers) storedKey(cfg *config.Config) string {
	if g.provider == nil {
		return filepath.Join(cfg.Home, wire.KeyFileName)
	}
	return filepath.Join(cfg.Home, "keys", g.provider.Name)
}

// endpoint returns the endpoint that the answers lead to.
func (g *answers) endpoint(a *cli.App, key config.Secret) config.Endpoint {
	e := config.Endpoint{BaseURL: g.host, APIKey: key, KeySource: g.keySource(), Model: g.model, Headers: a.Config.Model.Headers}
	if g.provider == nil {
		return e
	}
	set, _ := a.Config.ProviderEndpoint(g.provider.Name) // what is missing is what is answered here
	e.Protocol = set.Protocol
	e.Provider, e.KeyHeader, e.Exact, e.Headers = g.provider.Name, set.KeyHeader, set.Exact || g.provider.Exact && g.isRow(), set.Headers
	return e
}

// isRow reports whether the address is that of the table, filled in.
func (g *answers) isRow() bool {
	pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(g.provider.BaseURL), "[^/]+")
	return regexp.MustCompile("^" + pattern + "$").MatchString(g.host)
}

// askAddress asks for what an endpoint's address lacks.
func askAddress(ctx context.Context, p *show.Prompter, g *answers) error {
	p.Say(g.provider.Title + ". Enter takes the answer in [brackets].")
	if g.provider.Note != "" {
		p.Say("Note: " + g.provider.Note + ".")
	}
	if g.host != "" {
		return nil
	}
	values := map[string]string{}
	for _, name := range g.provider.Places() {
		value, err := p.Ask(ctx, "The "+name+" in "+g.provider.BaseURL, "", checkPlace)
		if err != nil {
			return err
		}
		values[name] = value
	}
	g.host = g.provider.Fill(values)
	return nil
}

var placeValue = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func checkPlace(s string) error {
	if !placeValue.MatchString(s) {
		return errors.New("it has letters, digits, dots and dashes only")
	}
	return nil
}

// providerValues are the answers about a provider as config.json has them. What is as in the
// table is not written.
func (g *answers) providerValues(text func(string) any) []clients.Value {
	at := func(key string, value any) clients.Value {
		return clients.Value{Path: []string{"providers", g.provider.Name, key}, Value: value}
	}
	keyEnv := g.keyEnv
	if keyEnv == g.provider.KeyVariable {
		keyEnv = ""
	}
	base, exact := text(g.host), any(nil)
	if g.host == g.provider.BaseURL {
		base = nil
	} else if g.provider.Exact && g.isRow() {
		exact = true
	}
	return []clients.Value{
		{Path: []string{"agent"}, Value: g.agent},
		{Path: []string{"model", "provider"}, Value: g.provider.Name},
		{Path: []string{"model", "model"}, Value: g.model},
		at("baseUrl", base), at("exact", exact), at("apiKeyEnv", text(keyEnv)), at("apiKeyFile", text(g.keyFile)), at("model", g.model),
		{Path: []string{"sandbox", "driver"}, Value: g.sandbox},
	}
}

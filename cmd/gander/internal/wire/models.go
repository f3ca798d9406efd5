package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/team/providers"
)

// OpenGateway implements confine.Settings.
func (w *Wiring) OpenGateway(agent string, o gateway.Options) (*gateway.Gateway, error) {
	endpoint, err := w.Config().Endpoint(agent)
	if err != nil {
		return nil, err
	}
	return w.policedGateway(o, endpoint, o.Observe)
}

// Gateway makes the way out to an endpoint, for gander's own calls.
func (w *Wiring) Gateway(e config.Endpoint, observe func(gateway.Event)) (*gateway.Gateway, error) {
	return w.policedGateway(gateway.Options{}, e, observe)
}

// policedGateway is gateway with the rules that are in o.
func (w *Wiring) policedGateway(o gateway.Options, e config.Endpoint, observe func(gateway.Event)) (*gateway.Gateway, error) {
	o.Endpoint = gateway.Endpoint{
		BaseURL: e.BaseURL, Protocol: protocols[e.Protocol], Exact: e.Exact, APIKey: e.APIKey.Reveal(), KeyHeader: e.KeyHeader, KeySource: e.KeySource,
		Headers: map[string]string{}, Model: e.Model,
	}
	for name, value := range e.Headers {
		o.Endpoint.Headers[name] = value.Reveal()
	}
	o.Proxy, o.Observe, o.Log = ProxyOf(w.Environ), observe, w.Log
	g, err := gateway.New(o)
	if err == nil {
		w.Secrets.Learn([]string{g.Token()}) // it is in a variable named KEY inside
	}
	return g, err
}

// protocols are those of the configuration as the gateway has them.
var protocols = map[string]gateway.Protocol{providers.Anthropic: gateway.Anthropic}

// PermittedModel fails for a model that the policy does not let anybody call.
func PermittedModel(cfg *config.Config, model string) error {
	allow := cfg.Policy.Model.Allow
	if model == "" || gateway.MatchModel(allow, model) {
		return nil
	}
	return fmt.Errorf("the policy permits the models %s, and not %q; choose one of those with --model or gander setup, or add it to policy.model.allow", strings.Join(allow, ", "), model)
}

// ProxyOf is the HTTP proxy that the environment names (HTTPS_PROXY, HTTP_PROXY,
// NO_PROXY, in either case). It applies to gander's own calls, not inside sandboxes.
func ProxyOf(environ []string) func(*http.Request) (*url.URL, error) {
	env := map[string]string{}
	for _, v := range environ {
		if name, value, ok := strings.Cut(v, "="); ok {
			env[name] = value
		}
	}
	first := func(name string) string {
		if v := env[name]; v != "" {
			return v
		}
		return env[strings.ToLower(name)]
	}
	proxy := (&httpproxy.Config{
		HTTPProxy: first("HTTP_PROXY"), HTTPSProxy: first("HTTPS_PROXY"), NoProxy: first("NO_PROXY"),
	}).ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
}

// ListModels asks for the models through the door that agents use; none when the
// endpoint does not list them.
func ListModels(ctx context.Context, door *gateway.Gateway) []string {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return door.Dial(ctx) },
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/models", nil)
	if err != nil {
		return nil
	}
	req.Header.Set("Authorization", "Bearer "+door.Token())
	res, err := client.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if res.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(res.Body, maxModelList)).Decode(&list) != nil {
		return nil
	}
	var models []string
	for _, m := range list.Data {
		models = append(models, m.ID)
	}
	slices.Sort(models)
	return models
}

// maxModelList bounds what is read of an endpoint's list.
const maxModelList = 4 << 20

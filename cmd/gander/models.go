package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/outbound/gateway"
)

// OpenGateway implements confine.Settings.
func (w *wiring) OpenGateway(agent string, o gateway.Options) (*gateway.Gateway, error) {
	endpoint, err := w.config().Endpoint(agent)
	if err != nil {
		return nil, err
	}
	return w.policedGateway(o, endpoint, o.Observe)
}

// gateway makes the way out to an endpoint, for gander's own calls.
func (w *wiring) gateway(e config.Endpoint, observe func(gateway.Event)) (*gateway.Gateway, error) {
	return w.policedGateway(gateway.Options{}, e, observe)
}

// policedGateway is gateway with the rules that are in o.
func (w *wiring) policedGateway(o gateway.Options, e config.Endpoint, observe func(gateway.Event)) (*gateway.Gateway, error) {
	o.Endpoint = gateway.Endpoint{BaseURL: e.BaseURL, APIKey: e.APIKey.Reveal(), KeySource: e.KeySource, Headers: map[string]string{}, Model: e.Model}
	for name, value := range e.Headers {
		o.Endpoint.Headers[name] = value.Reveal()
	}
	o.Proxy, o.Observe, o.Log = proxyOf(w.environ), observe, w.log
	g, err := gateway.New(o)
	if err == nil {
		w.secrets.learn([]string{g.Token()}) // it is in a variable named KEY inside
	}
	return g, err
}

// permittedModel fails for a model that the policy does not let anybody call.
func permittedModel(cfg *config.Config, model string) error {
	allow := cfg.Policy.Model.Allow
	if model == "" || gateway.MatchModel(allow, model) {
		return nil
	}
	return fmt.Errorf("the policy permits the models %s, and not %q; choose one of those with --model or gander setup, or add it to policy.model.allow", strings.Join(allow, ", "), model)
}

// proxyOf is the HTTP proxy that the environment names (HTTPS_PROXY, HTTP_PROXY,
// NO_PROXY, in either case). It applies to gander's own calls, not inside sandboxes.
func proxyOf(environ []string) func(*http.Request) (*url.URL, error) {
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

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/gateway"
)

// openModel opens the gateway of one session of an agent.
func (w *wiring) openModel(way confine.Way) (confine.Model, error) {
	m := &watchedModel{}
	var err error
	if m.Gateway, err = w.openModelWithin(way, gateway.Budget{}, m.see); err != nil {
		return nil, err
	}
	return m, nil
}

// watchedModel is a gateway that knows why its last call failed.
type watchedModel struct {
	*gateway.Gateway
	modelWatch
}

// openModelWithin is openModel with a budget that holds beside the policy's, and with
// who else wants to hear of the calls.
func (w *wiring) openModelWithin(way confine.Way, budget gateway.Budget, observe func(gateway.Event)) (*gateway.Gateway, error) {
	endpoint, err := w.config().Endpoint(way.Agent)
	if err != nil {
		return nil, err
	}
	p, err := w.policyOf(way.WorkingDir)
	if err != nil {
		return nil, err
	}
	out := w.outlet(way)
	o := modelOptions(p.Model, out.meter, way.Leaks)
	o.Budget = o.Budget.Within(budget)
	return w.policedGateway(o, endpoint, func(e gateway.Event) {
		w.models.see(e)
		observe(e)
		if e.Usage != nil {
			if err := out.keepSpent(); err != nil {
				w.log.Warn("what the session has spent is not kept; its budget begins anew after a restart", "session", way.Session, "err", err)
			}
		}
		if text := out.notices.bound(modelNotice(e), e.Time); text != "" {
			way.Notice("warning", text)
		}
	})
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

// modelNotice is what a person is told of a model call; mostly nothing.
func modelNotice(e gateway.Event) string {
	switch e.Kind {
	case gateway.Started, gateway.Finished, gateway.Cancelled, gateway.Aborted:
		return ""
	}
	if e.Failures > 1 {
		return fmt.Sprintf("%s (%d times in a row)", e.Message, e.Failures)
	}
	return e.Message
}

// modelNotices bounds what a person is told of a session's calls: a program inside can have
// as many of them refused as it likes, each in other words.
type modelNotices struct {
	// mu guards since when so many have been told.
	mu    sync.Mutex
	since time.Time
	told  int
}

const (
	noticesTime  = time.Minute
	noticesInAll = 20 // in that time
)

// bound is a notice as it is told at a moment; empty when it is not.
func (n *modelNotices) bound(text string, now time.Time) string {
	if text == "" {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.since) > noticesTime {
		n.since, n.told = now, 0
	}
	n.told++
	switch {
	case n.told > noticesInAll:
		return ""
	case n.told == noticesInAll:
		return text + " What else goes wrong with model calls in this minute is not shown."
	}
	return text
}

// modelWatch remembers how the last model call ended. That an agent lists the
// models is no such call: some do after a failure.
type modelWatch struct {
	// mu guards the fields below.
	mu      sync.Mutex
	failure string
	refused bool      // by the policy
	at      time.Time // of the failure
}

func (m *modelWatch) see(e gateway.Event) {
	if e.Method != http.MethodPost {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case gateway.Started, gateway.Cancelled, gateway.Aborted:
	case gateway.Finished:
		m.failure, m.refused = "", false
	default:
		m.failure, m.refused, m.at = e.Message, e.Kind == gateway.Refused, e.Time
	}
}

// LastFailure is why the last model call failed, and whether the policy refused it; empty
// when it did not fail, or before since.
func (m *modelWatch) LastFailure(since time.Time) (why string, refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.Before(since) {
		return "", false
	}
	return m.failure, m.refused
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

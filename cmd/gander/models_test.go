package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/rules/policy"
)

// What model.headers says goes out with every call, gander's own too.
func TestHeadersGoOut(t *testing.T) {
	seen := make(chan http.Header, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		_, _ = io.WriteString(w, `{"data": [{"id": "m"}]}`)
	}))
	t.Cleanup(server.Close)
	w := &wiring{log: slog.New(slog.DiscardHandler), secrets: newSecrets(nil)}
	g, err := w.gateway(config.Endpoint{BaseURL: server.URL, Model: "m", Headers: map[string]config.Secret{"OpenAI-Organization": "org-4711"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	if err := g.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := (<-seen).Get("OpenAI-Organization"); got != "org-4711" {
		t.Errorf("the endpoint was sent %q", got)
	}
}

// What the policy says of the model is the gateway's to keep.
func TestModelOptions(t *testing.T) {
	price := policy.Price{Input: 1, Output: 2, CachedInput: 0.5}
	p := policy.Model{Allow: []string{"m"}, Remote: true, MaxTokens: 3, MaxCost: 4, Prices: map[string]policy.Price{"m": price}}
	got := modelOptions(p, nil, nil)
	want := gateway.Options{
		Models: p.Allow, Remote: true, Budget: gateway.Budget{MaxTokens: 3, MaxCost: 4}, Prices: map[string]gateway.Price{"m": gateway.Price(price)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if modelOptions(policy.Model{}, nil, nil).Remote {
		t.Error("the endpoint may reach other hosts by default")
	}
}

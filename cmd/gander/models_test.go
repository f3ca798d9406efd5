package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"gander.dev/gander/cmd/gander/internal/config"
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

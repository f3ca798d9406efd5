package wire

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/outbound/egress"
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
	w := &Wiring{Log: slog.New(slog.DiscardHandler), Secrets: cli.NewSecrets(nil)}
	g, err := w.Gateway(config.Endpoint{BaseURL: server.URL, Model: "m", Headers: map[string]config.Secret{"OpenAI-Organization": "org-4711"}}, nil)
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

// The configuration knows the presets that there are.
func TestPresetsAreKnown(t *testing.T) {
	field, _ := reflect.TypeFor[policy.Network]().FieldByName("Presets")
	names := strings.Split(field.Tag.Get("enum"), ",")
	if slices.Sort(names); !slices.Equal(names, egress.Presets()) {
		t.Errorf("the configuration takes the presets %q, there are %q", names, egress.Presets())
	}
}

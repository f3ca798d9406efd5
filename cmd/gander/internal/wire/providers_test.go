package wire

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/team/providers"
)

// Each row of the table makes a valid way out, with what is its own in the address filled in.
func TestProviders(t *testing.T) {
	for _, p := range providers.All() {
		if p.Not != "" {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			home, text := t.TempDir(), "{}"
			values := map[string]string{}
			for _, name := range p.Places() {
				values[name] = "own"
			}
			if len(values) > 0 {
				text = `{"providers": {"` + p.Name + `": {"baseUrl": "` + p.Fill(values) + `"}}}`
			}
			if err := os.WriteFile(filepath.Join(home, config.UserFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(config.Options{Home: home, Environ: []string{p.KeyVariable + "=sk-0123456789"}})
			if err != nil {
				t.Fatal(err)
			}
			e, err := cfg.ProviderEndpoint(p.Name)
			if err != nil {
				t.Fatal(err)
			}
			if (e.APIKey != "") != (p.KeyVariable != "") || e.KeyHeader != p.KeyHeader || p.KeyVariable != "" && !strings.Contains(strings.Join(cfg.Secrets(), " "), "sk-0123456789") {
				t.Errorf("the key: %+v", e)
			}
			if u, err := url.Parse(e.BaseURL); err != nil || strings.ContainsAny(e.BaseURL, "{}") || u.Scheme == "http" && u.Hostname() != "127.0.0.1" {
				t.Errorf("the address: %s", e.BaseURL)
			}
			g, err := gateway.New(gateway.Options{Endpoint: gateway.Endpoint{BaseURL: e.BaseURL, Exact: e.Exact, APIKey: e.APIKey.Reveal(), KeyHeader: e.KeyHeader}})
			if err != nil {
				t.Fatal(err)
			}
			_ = g.Close()
		})
	}
}

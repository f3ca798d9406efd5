package config

import (
	"path/filepath"
	"testing"
)

// An agent's own provider is before LLM_HOST, and that before the one for all.
func TestProviderOfAgent(t *testing.T) {
	const file = `{"model": {"provider": "lab", "host": "http://old.example"},
		"providers": {"lab": {"baseUrl": "http://lab.example/api/v4/", "model": "small"}, "openrouter": {"model": "kimi"}},
		"agents": {"opencode": {"provider": "openrouter"}}}`
	tests := []struct {
		name, agent, host, model, source string
		environ                          []string
		flag                             string
	}{
		{name: "for all", agent: "goose", host: "http://lab.example/api/v4", model: "small"},
		{name: "variable before that for all", agent: "goose", environ: []string{"LLM_HOST=http://other.example"}, host: "http://other.example", model: "small"},
		{name: "bound", agent: "opencode", environ: []string{"LLM_HOST=http://other.example", "LLM_API_KEY=x", "OPENROUTER_API_KEY=sk-or-0123456789"}, host: "https://openrouter.ai/api/v1", model: "kimi", source: "OPENROUTER_API_KEY"},
		{name: "variable of the agent", agent: "opencode", environ: []string{"OPENCODE_MODEL=own", "OPENROUTER_API_KEY=k"}, host: "https://openrouter.ai/api/v1", model: "own", source: "OPENROUTER_API_KEY"},
		{name: "flag", agent: "opencode", flag: "flagged", environ: []string{"OPENROUTER_API_KEY=k"}, host: "https://openrouter.ai/api/v1", model: "flagged", source: "OPENROUTER_API_KEY"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			write(t, filepath.Join(home, UserFile), file)
			c, err := Load(Options{Home: home, Environ: tt.environ, Flags: Flags{Model: tt.flag}})
			if err != nil {
				t.Fatal(err)
			}
			e, err := c.Endpoint(tt.agent)
			if err != nil || e.BaseURL != tt.host || e.Model != tt.model || e.KeySource != tt.source {
				t.Errorf("%s with %q, key from %q, %v; want %s with %q, from %q", e.BaseURL, e.Model, e.KeySource, err, tt.host, tt.model, tt.source)
			}
		})
	}
}

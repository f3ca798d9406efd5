package config

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestEndpoint(t *testing.T) {
	const file = `{"model": {"host": "https://file.example/v1/", "apiKey": "file-key", "model": "file-model"}, "agents": {"opencode": {"model": "own"}}}`
	tests := []struct {
		name, file, agent string
		environ           []string
		want              Endpoint
	}{
		{"file", file, "goose", nil, Endpoint{BaseURL: "https://file.example", APIKey: "file-key", Model: "file-model"}},
		{"file, agent's model", file, "opencode", nil, Endpoint{BaseURL: "https://file.example/v1", APIKey: "file-key", Model: "own"}},
		{"environment first", file, "goose", []string{"LLM_HOST=http://env:1/v1", "LLM_API_KEY=env-key", "GOOSE_MODEL=env-model"}, Endpoint{BaseURL: "http://env:1", APIKey: "env-key", Model: "env-model"}},
		{"goose's own", "", "goose", []string{"LLM_HOST=http://no", "GOOSE_LLM_HOST=http://yes/", "GOOSE_MODEL=m"}, Endpoint{BaseURL: "http://yes", APIKey: "", Model: "m"}},
		{"opencode's own", "", "opencode", []string{"LLM_HOST=http://no", "OPENCODE_LLM_HOST=http://yes/v1", "OPENCODE_MODEL=custom/a/b"}, Endpoint{BaseURL: "http://yes/v1", APIKey: "", Model: "a/b"}},
		{"opencode adds v1", "", "opencode", []string{"LLM_HOST=http://h", "OPENCODE_MODEL=m"}, Endpoint{BaseURL: "http://h/v1", APIKey: "", Model: "m"}},
		{"path is kept", "", "goose", []string{"LLM_HOST=http://h/openai/v1", "GOOSE_MODEL=m"}, Endpoint{BaseURL: "http://h/openai", APIKey: "", Model: "m"}},
		{"empty is unset", file, "goose", []string{"LLM_HOST= ", "LLM_API_KEY=", "GOOSE_MODEL="}, Endpoint{BaseURL: "https://file.example", APIKey: "file-key", Model: "file-model"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustLoad(t, tt.file, "", tt.environ...)
			key, _ := c.Key()
			tt.want.KeySource = key.Source
			got, err := c.Endpoint(tt.agent)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Endpoint = %v key %q, %v; want %v", got, got.APIKey.Reveal(), err, tt.want)
			}
		})
	}
}

func TestEndpointErrors(t *testing.T) {
	c := mustLoad(t, "", "", "GOOSE_MODEL=m")
	if _, err := c.Endpoint("goose"); !errors.Is(err, ErrNoHost) || !strings.Contains(err.Error(), "set GOOSE_LLM_HOST or LLM_HOST, or model.host in "+c.Home) {
		t.Errorf("without a host: %v", err)
	}
	c = mustLoad(t, "", "", "LLM_HOST=http://h")
	e, err := c.Endpoint("goose")
	if !errors.Is(err, ErrNoModel) || e.BaseURL != "http://h" || !strings.Contains(err.Error(), "set GOOSE_MODEL") {
		t.Errorf("without a model: %v, %v", e, err)
	}
	for _, bad := range []string{"h:8080", "ftp://h", "http://", "http://h?key=x", "http://u:secret@h", "http://[::1"} {
		c := mustLoad(t, "", "", "LLM_HOST="+bad, "GOOSE_MODEL=m")
		if _, err := c.Endpoint("goose"); err == nil || !strings.HasPrefix(err.Error(), "LLM_HOST: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestModelFlag(t *testing.T) {
	c, err := Load(Options{Home: t.TempDir(), Environ: []string{"LLM_HOST=http://h", "GOOSE_MODEL=env"}, Flags: Flags{Model: "flag"}})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Endpoint("goose"); err != nil || e.Model != "flag" {
		t.Errorf("Endpoint = %v, %v", e, err)
	}
}

// The project's file decides before the user's, in each the agent's own model before the
// general one, and the policy's models are the user's all the same.
func TestModelOfProject(t *testing.T) {
	const user = `{"model": {"model": "user"}, "agents": {"goose": {"model": "user-goose"}}, "policy": {"model": {"allow": ["user*"]}}}`
	tests := []struct{ name, project, goose, opencode string }{
		{"none", `{}`, "user-goose", "user"},
		{"a general one", `{"model": {"model": "project"}}`, "project", "project"},
		{"an agent's", `{"agents": {"goose": {"model": "project-goose"}}}`, "project-goose", "user"},
		{"both", `{"model": {"model": "project"}, "agents": {"goose": {"model": "project-goose"}}}`, "project-goose", "project"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustLoad(t, user, tt.project)
			for agent, want := range map[string]string{"goose": tt.goose, "opencode": tt.opencode} {
				file := c.userPath()
				if strings.HasPrefix(want, "project") {
					file = filepath.Join(c.o.ProjectDir, ProjectFile)
				}
				if got, source := c.model(agent), c.ModelSource(agent); got != want || !strings.HasSuffix(source, " in "+file) {
					t.Errorf("%s has the model %s by %s; want %s of %s", agent, got, source, want, file)
				}
			}
			if allow := c.EffectivePolicy().Policy.Model.Allow; !slices.Equal(allow, []string{"user*"}) {
				t.Errorf("the policy allows %q", allow)
			}
		})
	}
}

func TestSources(t *testing.T) {
	c := mustLoad(t, `{"agent": "opencode", "model": {"model": "m"}}`, `{"agents": {"goose": {"model": "own"}}}`, "OPENCODE_MODEL=o")
	tests := []struct{ got, want string }{
		{c.SetIn("agent"), c.userPath()},
		{c.SetIn("sandbox.driver"), ""},
		{c.ModelSource("goose"), "agents.goose.model in " + filepath.Join(c.o.ProjectDir, ProjectFile)},
		{c.ModelSource("opencode"), "OPENCODE_MODEL"},
		{mustLoad(t, `{"model": {"model": "m"}}`, "").ModelSource("goose"), "model.model in "},
		{mustLoad(t, "", "").ModelSource("goose"), ""},
	}
	for i, tt := range tests {
		if tt.got != tt.want && (!strings.HasSuffix(tt.want, " ") || !strings.HasPrefix(tt.got, tt.want)) {
			t.Errorf("%d: %q, want %q", i, tt.got, tt.want)
		}
	}
}

// Headers go with the key to whatever endpoint counts, and are as secret.
func TestHeaders(t *testing.T) {
	const file = `{"model": {"host": "https://file.example", "model": "m", "headers": {"OpenAI-Organization": "org-4711-secret", "X-Team": "blue-0815"}}}`
	c := mustLoad(t, file, "", "LLM_HOST=http://env")
	e, err := c.Endpoint("goose")
	if err != nil || e.BaseURL != "http://env" || len(e.Headers) != 2 || e.Headers["X-Team"].Reveal() != "blue-0815" {
		t.Errorf("Endpoint = %+v, %v", e, err)
	}
	if got := c.Secrets(); !slices.Contains(got, "org-4711-secret") || !slices.Contains(got, "blue-0815") {
		t.Errorf("secrets: %q", got)
	}
	for text, want := range map[string]string{
		`{"": "v"}`:                   `is not the name of a header`,
		`{"X Team": "v"}`:             `is not the name of a header`,
		`{"Xü": "v"}`:                 `is not the name of a header`,
		`{"X": "sk-1\r\nHost: evil"}`: `model.headers.X: a header's value is one line of text`,
		`{"X": "sk-1\u0000"}`:         `model.headers.X: a header's value is one line of text`,
		`{"X": ""}`:                   `model.headers.X: is empty`,
		`{"Host": "sk-1"}`:            `model.headers.Host: is not for you to choose`,
		`{"content-Length": "sk-1"}`:  `model.headers.content-Length: is not for you to choose`,
		`{"X-A": "sk-1", "x-a": "k"}`: `is there twice`,
		`{"X": 1}`:                    `model.headers.X: want a string`,
	} {
		_, err := loadWith(t, `{"model": {"headers": `+text+`}}`, "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-1") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"X-Team": "v"}`: "a project must not choose where prompts and the key go", `{"X.Team": "v"}`: "not allowed", `{}`: "not allowed",
	} {
		if _, err := loadWith(t, "", `{"model": {"headers": `+text+`}}`); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a project's file with %s: %v", text, err)
		}
	}
}

package main

import (
	"testing"

	"gander.dev/gander/acp"
)

// What the editor gives its MCP servers is hidden by the rule for variables, and so is
// the token of an Authorization header.
func TestSecretsOfServers(t *testing.T) {
	s := newSecrets(nil)
	s.learnAmong([]acp.EnvVariable{
		{Name: "GITHUB_TOKEN", Value: "ghp_0123456789"},
		{Name: "authorization", Value: "Bearer eyJ0123456789"},
		{Name: "X-Api-Key", Value: "key-0123456789"},
		{Name: "REGION", Value: "eu-central-1"},
	})
	said := s.hideIn("ghp_0123456789 and eyJ0123456789, key-0123456789 in eu-central-1")
	if want := "[redacted] and [redacted], [redacted] in eu-central-1"; said != want {
		t.Errorf("got %q, want %q", said, want)
	}
}

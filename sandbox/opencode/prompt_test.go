package opencode

import (
	"encoding/json"
	"testing"

	"gander.dev/gander/acp"
)

func TestCommandName(t *testing.T) {
	text := func(s string) acp.ContentBlock { return acp.TextBlock(s) }
	link := func(uri string) acp.ContentBlock {
		raw, _ := json.Marshal(map[string]string{"type": "resource_link", "uri": uri, "name": "x"})
		return raw
	}
	const (
		image = `{"type":"image","data":"eA==","mimeType":"image/png"}`
		file  = `{"type":"resource","resource":{"uri":"file:///a.txt","text":"x"}}`
		blob  = `{"type":"resource","resource":{"uri":"file:///a.bin","blob":"eA==","mimeType":"application/zip"}}`
	)
	tests := []struct {
		name   string
		prompt []acp.ContentBlock
		want   string
	}{
		{"words", []acp.ContentBlock{text("what is /etc/hosts?")}, ""},
		{"a path", []acp.ContentBlock{text("/etc/hosts what is this")}, "etc/hosts"},
		{"a command", []acp.ContentBlock{text("/init")}, "init"},
		{"white space", []acp.ContentBlock{text(" \n\ufeff/init\targuments")}, "init"},
		{"a slash alone", []acp.ContentBlock{text("/ hello")}, ""},
		{"a comment", []acp.ContentBlock{text("// TODO explain")}, "/"},
		{"after words", []acp.ContentBlock{text("look:"), text("/etc/hosts")}, ""},
		{"after nothing", []acp.ContentBlock{text("  "), text("/etc/hosts")}, "etc/hosts"},
		{"after an image", []acp.ContentBlock{[]byte(image), text("/etc/hosts")}, "etc/hosts"},
		{"after a file", []acp.ContentBlock{[]byte(file), text("/etc/hosts")}, ""},
		{"after a blob", []acp.ContentBlock{[]byte(blob), text("/etc/hosts")}, "etc/hosts"},
		{"after a link to a file", []acp.ContentBlock{link("file:///a"), text("/etc/hosts")}, "etc/hosts"},
		{"after a link", []acp.ContentBlock{link("https://a.example"), text("/etc/hosts")}, ""},
		{"a link that begins with a slash", []acp.ContentBlock{link("/a/b")}, "a/b"},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := commandName(tt.prompt); got != tt.want {
				t.Errorf("commandName = %q, want %q", got, tt.want)
			}
			if tt.want != "" && commandName(guard(tt.prompt)) != "" {
				t.Error("the guard does not help")
			}
		})
	}
}

// The guard is for opencode's eyes: the model gets the prompt as it was.
func TestGuardKeepsThePrompt(t *testing.T) {
	prompt := []acp.ContentBlock{acp.TextBlock("/etc/hosts what is this")}
	got := guard(prompt)
	var block struct {
		Annotations struct{ Audience []string }
	}
	if err := json.Unmarshal(got[0], &block); err != nil || len(block.Annotations.Audience) != 1 || block.Annotations.Audience[0] != "user" {
		t.Errorf("guard %s: %v", got[0], err)
	}
	if len(got) != 2 || string(got[1]) != string(prompt[0]) || len(prompt) != 1 {
		t.Errorf("guarded %s", got)
	}
}

// Package providers has a table of endpoints that serve models: the address of each, and how
// it takes a key. It is data: to add an endpoint, add a row, with where its facts are from.
package providers

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// The protocols of model calls.
const (
	// OpenAI is that of chat completions and responses.
	OpenAI = "openai"
	// Anthropic is that of its Messages.
	Anthropic = "anthropic"
)

// A Provider is a known endpoint.
type Provider struct {
	Name string `json:"name"`
	// Also are other names by which it is asked for.
	Also  []string `json:"also,omitempty"`
	Title string   `json:"title"`
	// BaseURL may have places in it to be filled in: {region}.
	BaseURL string `json:"baseUrl,omitempty"`
	// Exact says that the address is complete, so that no version is added to it.
	Exact bool `json:"exact,omitempty"`
	// Protocol is one of those above; empty means OpenAI.
	Protocol string `json:"protocol,omitempty"`
	// KeyVariable usually holds the key; empty where none is needed.
	KeyVariable string `json:"keyVariable,omitempty"`
	// KeyHeader takes the key as it is; empty means Authorization with a bearer token.
	KeyHeader string `json:"keyHeader,omitempty"`
	// Headers are sent with every call.
	Headers map[string]string `json:"headers,omitempty"`
	// Note tells people something of it.
	Note string `json:"note,omitempty"`
	// Not says why it cannot be used, and what can; empty when it can.
	Not string `json:"not,omitempty"`
	// Source and Date say where the row is from and of when that is.
	Source string `json:"source"`
	Date   string `json:"date"`
}

//go:embed providers.json
var table []byte

// All returns the table. It panics when that is no JSON, which a test rules out.
func All() []Provider {
	var all []Provider
	if err := json.Unmarshal(table, &all); err != nil {
		panic(err)
	}
	return all
}

// Find returns the provider of a name; false when there is none.
func Find(name string) (Provider, bool) {
	for _, p := range All() {
		if p.Name == name || slices.Contains(p.Also, name) {
			return p, true
		}
	}
	return Provider{}, false
}

var place = regexp.MustCompile(`\{[a-z]+\}`)

// Places returns the names of what is to be filled in, each once: "region".
func (p Provider) Places() []string {
	var names []string
	for _, found := range place.FindAllString(p.BaseURL, -1) {
		if name := strings.Trim(found, "{}"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Fill returns the address with its places filled in.
func (p Provider) Fill(values map[string]string) string {
	return place.ReplaceAllStringFunc(p.BaseURL, func(found string) string { return values[strings.Trim(found, "{}")] })
}

package egress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// presets are the hosts that common tools need, by name. Storage that anybody can
// rent a piece of under the same name is in none of them.
var presets = map[string][]string{
	"go":     {"proxy.golang.org:443", "sum.golang.org:443"},
	"npm":    {"registry.npmjs.org:443", "registry.yarnpkg.com:443"},
	"pypi":   {"pypi.org:443", "files.pythonhosted.org:443"},
	"crates": {"index.crates.io:443", "static.crates.io:443", "crates.io:443"},
	"debian": {"deb.debian.org", "security.debian.org"}, // plain HTTP too: apt checks signatures
	"git": {
		"github.com:443", "codeload.github.com:443", "raw.githubusercontent.com:443", "objects.githubusercontent.com:443",
		"gitlab.com:443", "codeberg.org:443", "bitbucket.org:443", "git.sr.ht:443",
	},
}

// Presets are the names that Preset knows.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset is the rules that a name stands for.
func Preset(name string) ([]Rule, error) {
	list, ok := presets[name]
	if !ok {
		return nil, fmt.Errorf("there is no preset %q for hosts; choose from %s, or name the hosts", name, strings.Join(Presets(), ", "))
	}
	var rules []Rule
	for _, text := range list {
		r, err := ParseRule(text)
		if err != nil {
			return nil, fmt.Errorf("the preset %s: %w", name, err)
		}
		r.from = name
		rules = append(rules, r)
	}
	return rules, nil
}

package shell

import (
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/policy"
)

// rulesOnly are the rules of .gooseignore without the names that a sandbox protects: what
// git and editors run is the person's own affair here. The rules files themselves stay for
// reading only.
func rulesOnly(own string, denied func(sandbox.Denial)) *sandbox.Rules {
	var all []string
	for _, g := range policy.Groups() {
		all = append(all, "@"+g.Name)
	}
	return &sandbox.Rules{Own: own, Writes: policy.Writes{Allow: all}, Denied: denied}
}

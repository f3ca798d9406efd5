package presets

import (
	"testing"

	"gander.dev/gander/sandbox/team/roster"
)

// Each row can be added, and says when it was tried, or says why not.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All() {
		for _, name := range append([]string{p.Name}, p.Also...) {
			if found, ok := Find(name); !ok || found.Name != p.Name || seen[name] {
				t.Errorf("%s is found as %q, or is there twice", name, found.Name)
			}
			seen[name] = true
		}
		if why := roster.CheckID(p.Name); why != "" {
			t.Error(why)
		}
		if p.Title == "" || p.Program == "" || p.Package == "" || p.Protocol == "" {
			t.Errorf("%s: something is missing: %+v", p.Name, p)
		}
		if (p.Not == "") != (p.Tried != "" && p.Version+p.Note != "" && len(p.Env) > 0) {
			t.Errorf("%s: it is either tried, at a version and with variables, or refused: %+v", p.Name, p)
		}
	}
}

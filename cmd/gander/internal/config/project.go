package config

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// projectKeys are what a project's file may set: choices among what the user has
// made available. "*" stands for any agent. What it says of the policy is weighed
// one by one: see policy.Merge.
func projectKeys() []string {
	return []string{"agent", "model.model", "agents.*.model"}
}

// projectMaySet reports whether a project's file may set p, or something below it.
func projectMaySet(p string) bool {
	if p == "policy" || strings.HasPrefix(p, "policy.") {
		return true
	}
	depth := strings.Count(p, ".") + 1
	return slices.ContainsFunc(projectKeys(), func(pattern string) bool {
		parts := strings.Split(pattern, ".")
		return depth <= len(parts) && matches(strings.Join(parts[:depth], "."), p)
	})
}

// whyNot says of the other keys why a project must not set them; the first
// pattern that matches counts.
func whyNot() [][2]string {
	return [][2]string{
		{"model.*", "a project must not choose where prompts and the key go"},
		{"model.headers.*", "a project must not choose where prompts and the key go"},
		{"providers.*", "a project must not choose where prompts and the key go"},
		{"providers.*.*", "a project must not choose where prompts and the key go"},
		{"providers.*.headers.*", "a project must not choose where prompts and the key go"},
		{"agents.*.provider", "a project must not choose where prompts and the key go"},
		{"agents.*.mode", "a project must not choose what an agent may do without asking"},
		{"agents.*.*", "a project must not choose what runs on this machine"},
		{"agents.*.env.*", "a project must not choose what runs on this machine"},
		{"sandbox.*", "a project must not choose what its sandbox is and sees"},
		{"toolchains", "a project must not choose what its sandbox is and sees"},
		{"skills.*", "a project must not choose what its sandbox is and sees"},
		{"permissions", "a project must not choose what an agent may do without asking"},
		{"sessions.*", "conversations belong to the person, not to a project"},
		{"sessions.*.*", "conversations belong to the person, not to a project"},
		{"changes.*", "what is kept for undoing belongs to the person, not to a project"},
		{"orchestrator.planner", "who plans is for the person to say, not for a project"},
		{"orchestrator.*.*", "how far a run goes is for the person to say, not for a project"},
		{"mcp.*", "a project must not choose what of this machine its agent reaches"},
		{"notify.*", "a project must not choose who is told what happens on this machine"},
		{"upgrade.*", "a project must not choose whom gander asks"},
		{"log.*", "logs belong to the person, not to a project"},
	}
}

// checkProject fails for every setting of the file that is not a project's.
func (d *decoder) checkProject(userFile string) {
	var paths []string
	for p := range d.places {
		if p != "" && !projectMaySet(p) && !strings.HasSuffix(p, "]") && !d.isGroup(p) {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(d.places[a], d.places[b]) })
	for _, p := range paths {
		d.fail(d.places[p], p, "not allowed in a project's file: %s; set it in %s", reason(p), userFile)
	}
}

// isGroup reports whether the file sets something below p.
func (d *decoder) isGroup(p string) bool {
	for other := range d.places {
		if strings.HasPrefix(other, p+".") {
			return true
		}
	}
	return false
}

func reason(p string) string {
	for _, w := range whyNot() {
		if matches(w[0], p) {
			return w[1]
		}
	}
	return "this is for the user to set"
}

// matches reports whether a dotted path is of the pattern's form.
func matches(pattern, p string) bool {
	ok, _ := path.Match(strings.ReplaceAll(pattern, ".", "/"), strings.ReplaceAll(p, ".", "/"))
	return ok
}

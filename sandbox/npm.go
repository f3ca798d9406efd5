package sandbox

import (
	"embed"
	"encoding/json"
)

// NPM is the npm project that pins the agents: package.json, its lock file and
// npm's settings. Installing from it gives exactly the programs gander is
// tested with.
//
//go:embed package.json package-lock.json .npmrc
var NPM embed.FS

// Tested returns the version of a package that gander is tested with, of the first that NPM
// pins; empty when it pins none.
func Tested(packages ...string) string {
	raw, err := NPM.ReadFile("package.json")
	if err != nil {
		return ""
	}
	var project struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if json.Unmarshal(raw, &project) != nil {
		return ""
	}
	for _, pkg := range packages {
		if v := project.Dependencies[pkg]; v != "" {
			return v
		}
	}
	return ""
}

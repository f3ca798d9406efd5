package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"strings"
)

// component is a part of a program in a CycloneDX list.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

// components lists what a program is made of, as CycloneDX 1.6: the modules that
// the go command has written into it, and Go's own library.
func components(program, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("reading what %s is made of: %w", program, err)
	}
	module := func(kind, name, version string) component {
		url := "pkg:golang/" + name + "@" + version
		return component{Type: kind, Ref: url, Name: name, Version: version, PURL: url}
	}
	self := module("application", info.Main.Path, version)
	parts := []component{module("library", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, module("library", m.Path, m.Version))
	}
	var needs []string
	for _, p := range parts {
		needs = append(needs, p.Ref)
	}
	return indented(map[string]any{
		"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":     map[string]any{"component": self},
		"components":   parts,
		"dependencies": []map[string]any{{"ref": self.Ref, "dependsOn": needs}},
	}), nil
}

// indented is a value of this program as JSON for people, too.
func indented(v any) []byte {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // a value that has no JSON is a mistake in this program
	}
	return append(body, '\n')
}

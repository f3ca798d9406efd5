package main

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed icon.svg
var icon []byte

// What the registries say of gander. The descriptions have at most 100 letters,
// which is the MCP registry's limit.
const (
	agentAbout  = "Runs goose or opencode in a sandbox of its own, for any editor that speaks ACP"
	serverAbout = "goose's classic developer tools: shell, text editor and code analysis"
	serverName  = "dev.gander/developer"
	homepage    = "https://gander.dev/gander"
)

// The registries' words for platforms.
var (
	registryOS   = map[string]string{"linux": "linux", "darwin": "darwin", "windows": "windows"}
	registryArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
)

// versionShape is a semantic version.
var versionShape = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// semver is a version as registries want it: a tag without its v, or else a version
// that comes before all others and names the commit.
func semver(version string) string {
	if v := strings.TrimPrefix(version, "v"); versionShape.MatchString(v) {
		return v
	}
	word := regexp.MustCompile(`[^0-9A-Za-z-]+`).ReplaceAllString(version, "-")
	return "0.0.0-dev." + word
}

// writeRegistries writes the entry for each registry.
func (r *release) writeRegistries(platforms []platform, bundles []bundle) error {
	if err := r.write("acp-registry/gander/icon.svg", icon); err != nil {
		return err
	}
	if err := r.write("acp-registry/gander/agent.json", indented(r.agentEntry(platforms))); err != nil {
		return err
	}
	return r.write("mcp-registry/server.json", indented(r.serverEntry(bundles)))
}

// agentEntry is agent.json of the ACP registry.
func (r *release) agentEntry(platforms []platform) map[string]any {
	binary := map[string]any{}
	for _, p := range platforms {
		binary[registryOS[p.os]+"-"+registryArch[p.arch]] = map[string]any{
			"archive": r.url + "/" + r.file(p), "cmd": "./" + p.program(), "args": []string{"acp"},
		}
	}
	return map[string]any{
		"id": "gander", "name": "gander", "version": semver(r.version), "description": agentAbout,
		"repository": homepage, "authors": []string{"the gander authors"}, "license": "Apache-2.0", "icon": "./icon.svg",
		"distribution": map[string]any{"binary": binary},
	}
}

// bundle is an archive that MCP clients install by themselves.
type bundle struct{ file, sum string }

// makeBundle packs the program for MCP clients (MCPB).
func (r *release) makeBundle(p platform, program []byte) (bundle, error) {
	system := map[string]string{"windows": "win32"}[p.os]
	if system == "" {
		system = p.os
	}
	manifest := map[string]any{
		"manifest_version": "0.3", "name": "gander-developer", "version": semver(r.version), "description": serverAbout,
		"author": map[string]any{"name": "the gander authors"}, "license": "Apache-2.0",
		"server": map[string]any{
			"type": "binary", "entry_point": p.program(),
			"mcp_config": map[string]any{"command": "${__dirname}/" + p.program(), "args": []string{"mcp", "developer"}, "env": map[string]any{}},
		},
		"compatibility": map[string]any{"platforms": []string{system}},
	}
	body := zipped([]file{{"manifest.json", indented(manifest), 0o644}, {p.program(), program, 0o755}})
	b := bundle{file: "gander-mcp-" + p.os + "-" + p.arch + ".mcpb", sum: fmt.Sprintf("%x", sha256.Sum256(body))}
	return b, r.write(b.file, body)
}

// serverEntry is server.json of the MCP registry.
func (r *release) serverEntry(bundles []bundle) map[string]any {
	var packages []map[string]any
	for _, b := range bundles {
		packages = append(packages, map[string]any{
			"registryType": "mcpb", "identifier": r.url + "/" + b.file, "version": semver(r.version), "fileSha256": b.sum,
			"transport": map[string]any{"type": "stdio"},
		})
	}
	return map[string]any{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name":    serverName, "title": "gander developer", "description": serverAbout, "version": semver(r.version),
		"websiteUrl": homepage, "packages": packages,
	}
}

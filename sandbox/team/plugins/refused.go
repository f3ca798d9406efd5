package plugins

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// told are keys that say something of a plugin and have nothing done.
func told() []string {
	return []string{
		"$schema", "id", "name", "displayName", "version", "description", "author", "homepage", "repository", "license", "keywords", "tags", "category", "logo", "icon", "interface",
		"configSchema", "skills", "commands", "agents", "mcpServers", "requiresPlugins", "dependencies", "enabledByDefault", "legacyPluginIds", "kind",
	}
}

// reasons say why keys do not count.
func reasons() map[string]string {
	code := "it is for code of the plugin, which gander never runs"
	ui := "gander shows nothing of a plugin's own"
	models := "endpoints of models, and what calls them, are yours to configure: gander provider list, gander agent add"
	return map[string]string{
		"hooks":       "commands that run at events; gander runs nothing of a plugin on your machine",
		"channels":    "gander has no channels",
		"lspServers":  "gander starts no language servers",
		"monitors":    "programs that run beside the agent; gander runs nothing of a plugin on your machine",
		"providers":   models,
		"cliBackends": models, "providerAuthChoices": models, "providerAuthEnvVars": models, "modelSupport": models,
		"contracts": code, "activation": code, "setup": code, "cliCommands": code, "extensions": code, "entry": code, "main": code, "channelConfigs": code, "runtime": code, "tools": code, "bin": code,
		"dashboard": ui, "themes": ui, "uiHints": ui, "outputStyles": ui, "apps": ui, "rules": "rules for one editor; put them into the project's AGENTS.md",
	}
}

// refuse names what else the plugin has.
func (r *reader) refuse() {
	why := reasons()
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		if !slices.Contains(told(), key) {
			r.refused(key, "%s", cmp.Or(why[key], "gander has no use for it"))
		}
	}
	for _, dir := range []string{"hooks", "monitors", "output-styles", "bin", "rules"} {
		if _, named := r.keys[dir]; !named && r.isFolder(dir) {
			r.refused(dir+"/", "%s", cmp.Or(why[dir], why["outputStyles"]))
		}
	}
	pack, err := r.object("package.json")
	if err != nil {
		r.refused("package.json", "%s", err)
	}
	var scripts map[string]any
	if json.Unmarshal(pack["scripts"], &scripts) == nil && len(scripts) > 0 {
		names := slices.Sorted(maps.Keys(scripts))
		r.refused("package.json scripts", "%s: nobody runs them", shorten(strings.Join(names, ", ")))
	}
	var needs map[string]any
	if json.Unmarshal(pack["dependencies"], &needs) == nil && len(needs) > 0 {
		r.refused("package.json dependencies", "%d packages: they are not installed", len(needs))
	}
	var openclaw map[string]json.RawMessage
	if json.Unmarshal(pack["openclaw"], &openclaw) == nil {
		for _, key := range slices.Sorted(maps.Keys(openclaw)) {
			r.refused("package.json openclaw."+key, "%s", cmp.Or(why[key], why["contracts"]))
		}
	}
}

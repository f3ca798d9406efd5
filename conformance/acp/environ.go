package acp

import (
	"os"
	"path/filepath"
	"strings"

	"gander.dev/gander/conformance/harness"
)

// modelKey is what the model wants to see. It opens nothing else.
const modelKey = "conformance-key"

// makeHome makes the agent's home. The directory of opencode's configuration is
// as its plugins leave it, or else it would fetch them from the network.
func (r *runner) makeHome() error {
	opencode := filepath.Join(r.home, ".config", "opencode")
	for _, dir := range []string{filepath.Join(opencode, "node_modules"), filepath.Join(r.dir, "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"package.json":      `{"dependencies":{"@opencode-ai/plugin":"1.18.33"}}`,
		"package-lock.json": `{"packages":{"":{"dependencies":{"@opencode-ai/plugin":"1.18.33"}}}}`,
	} {
		if err := os.WriteFile(filepath.Join(opencode, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// environ is the whole environment of an agent.
func (r *runner) environ(more []string) []string {
	opencode := map[string]any{
		"provider": map[string]any{"custom": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "Custom",
			"options": map[string]any{"baseURL": r.url + "/v1", "apiKey": modelKey},
			"models": map[string]any{modelName: map[string]any{
				"name": modelName, "attachment": true, "limit": map[string]any{"context": 131072, "output": 8192},
				"modalities": map[string]any{"input": []string{"text", "image"}, "output": []string{"text"}},
			}},
		}},
		"model": "custom/" + modelName, "enabled_providers": []string{"custom"}, "share": "disabled", "autoupdate": false,
		"agent": map[string]any{"title": map[string]any{"disable": true}},
	}
	known := []string{
		"HOME={home}", "TMPDIR=" + filepath.Join(r.dir, "tmp"),
		"XDG_CONFIG_HOME={home}/.config", "XDG_DATA_HOME={home}/.local/share", "XDG_STATE_HOME={home}/.local/state", "XDG_CACHE_HOME={home}/.cache",
		// gander
		"GANDER_HOME={home}/gander", "LLM_HOST={modelUrl}", "LLM_API_KEY={modelKey}", "GOOSE_MODEL=" + modelName, "OPENCODE_MODEL=" + modelName, "ORCHESTRATOR_MODEL=" + modelName,
		"GOOSE_LLM_HOST={modelUrl}", "OPENCODE_LLM_HOST={modelUrl}/v1",
		// goose
		"GOOSE_PROVIDER=openai", "OPENAI_HOST={modelUrl}", "OPENAI_API_KEY={modelKey}", "GOOSE_MODE=auto", "GOOSE_DISABLE_KEYRING=1",
		"GOOSE_DISABLE_SESSION_NAMING=true", "GOOSE_PATH_ROOT={home}/goose",
		// opencode
		"OPENCODE_CONFIG_CONTENT=" + harness.Marshal(opencode), "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
	}
	all := append([]string{}, r.o.Environ...)
	for _, list := range [][]string{known, r.o.Env, more} {
		for _, v := range list {
			all = append(all, r.expand(v))
		}
	}
	return all
}

// askEnviron makes the known agents ask before they run a command.
func (r *runner) askEnviron() []string {
	return append([]string{"GOOSE_MODE=approve", `OPENCODE_PERMISSION={"bash":"ask","edit":"ask"}`}, r.o.AskEnv...)
}

func (r *runner) expand(text string) string {
	return strings.NewReplacer("{dir}", r.dir, "{home}", r.home, "{modelUrl}", r.url, "{modelKey}", modelKey).Replace(text)
}

package config

import (
	"strings"

	"gander.dev/gander/sandbox/agents"
)

// summaryModel is the model of summaries where none is chosen, as the system had it
// whose variables these are.
const summaryModel = "Qwen3.5-27B"

// Summaries is where the control plane has iterations of unattended runs summed up:
// CP_LLM_BASE_URL, which has its /v1, or else LLM_HOST; CP_LLM_API_KEY, or else the
// key of the models; CP_LLM_MODEL. False means that there are no summaries.
func (c *Config) Summaries() (Endpoint, bool) {
	_, base := c.env.first("CP_LLM_BASE_URL")
	if _, host := c.env.first("LLM_HOST"); base == "" && host != "" {
		base = withV1(host)
	}
	if base == "" || checkURL(base) != nil {
		return Endpoint{}, false
	}
	e := Endpoint{BaseURL: strings.TrimRight(base, "/"), Model: summaryModel}
	if _, key := c.env.first("CP_LLM_API_KEY"); key != "" {
		e.APIKey = Secret(key)
	} else if key, err := c.Key(); err == nil {
		e.APIKey = key.Value
	}
	if model := c.model(agents.Default()); model != "" {
		e.Model = model
	}
	if _, model := c.env.first("CP_LLM_MODEL"); model != "" {
		e.Model = model
	}
	return e, true
}

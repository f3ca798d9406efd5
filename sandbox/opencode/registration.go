package opencode

import (
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/telemetry"
)

// Registration is opencode's row in the list of agents.
var Registration = acpagent.Registration{
	Name:     Name,
	Packages: map[string]string{"linux/amd64": "opencode-linux-x64"},
	New: func(settings func() (Settings, error), o Options) sandbox.Agent {
		return New(settings, o)
	},
	Parser: func() telemetry.Parser { return new(Events) },
	Plain: func(p acpagent.Plain) (args, env []string) {
		return OneShotArgs("", p.Temporary, p.Command...), PlainEnvironment(p.Environ, p.BaseURL, p.Key, p.Model)
	},
	HostVariable: "LLM_BASE_URL",
	HostEndsInV1: true,
	ModelPrefix:  provider + "/",
	AskingModes:  []string{"ask"},
	Retries:      true,
	Tools:        acpagent.Tools{Shell: "bash", File: "filePath", Before: "oldString", After: "newString"},
}

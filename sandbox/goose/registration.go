package goose

import (
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/telemetry"
)

// Registration is goose's row in the list of agents. In its mode chat it uses no tools.
var Registration = acpagent.Registration{
	Name:     Name,
	Packages: map[string]string{"linux/amd64": "@aaif/goose-binary-linux-x64"},
	New: func(settings func() (Settings, error), o Options) sandbox.Agent {
		return New(settings, o)
	},
	Parser: func() telemetry.Parser { return new(Events) },
	Plain: func(p acpagent.Plain) (args, env []string) {
		return OneShotArgs(p.Command...), PlainEnvironment(p.Environ, p.BaseURL, p.Key, p.Model)
	},
	HostVariable: "OPENAI_HOST",
	AskingModes:  []string{"approve", "chat"},
	Retries:      true,
	Tools:        acpagent.Tools{Shell: "shell", File: "path", Before: "before", After: "after"},
}

package acpagent

import (
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/telemetry"
)

// A Registration holds what gander has to know of an agent that it brings, besides its image,
// which is made by the Dockerfile in the agent's folder. sandbox/agents lists them.
type Registration struct {
	// Name is the word for --agent, and the name of the program and of the folder below sandbox.
	Name string
	// Packages are the packages in sandbox/package.json that hold the program, by platform.
	Packages map[string]string
	// New returns the agent; see NewBase.
	New func(settings func() (Settings, error), o BaseOptions) sandbox.Agent
	// Parser returns a parser of what the command of sandbox.OneShot prints.
	Parser func() telemetry.Parser
	// Plain returns the command line and the environment for one instruction where nobody has
	// made a sandbox, as in a container that was started by hand.
	Plain func(p Plain) (args, env []string)
	// HostVariable is the agent's own variable for the model's address, which Plain may find set.
	HostVariable string
	// HostEndsInV1 says that this address ends in /v1.
	HostEndsInV1 bool
	// ModelPrefix ("custom/") is cut off from the model's name in the variable <NAME>_MODEL.
	ModelPrefix string
	// AskingModes are the modes in which it does nothing unasked. The first is for gander to choose.
	AskingModes []string
	// Retries says that it calls the model again after a failure that may pass.
	Retries bool
	// Tools are its names for what the demo's model calls.
	Tools Tools
}

// Plain holds the facts for a command without a sandbox.
type Plain struct {
	Command []string // the program and its leading arguments
	Environ []string
	// Temporary is a directory for the agent alone, which need not be there.
	Temporary           string
	BaseURL, Key, Model string
}

// Tools are the names of an agent's tool that runs commands, and of the arguments of its tool edit.
type Tools struct {
	Shell               string
	File, Before, After string
}

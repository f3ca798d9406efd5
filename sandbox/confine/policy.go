package confine

import (
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/rules/policy"
)

// Policy says what the sandboxes of a project may do.
type Policy struct {
	policy.Policy
	// Refused is what the project's own file asks for and does not get.
	Refused []policy.Request
	// Mounts and Env are what the project's file adds, when it is trusted, to what
	// drivers and agents have of the person's.
	Mounts []sandbox.Mount
	Env    []string
	// HomeFiles are put into the home inside besides those of Settings.
	HomeFiles map[string][]byte
	// Settings are the person's of git that count inside.
	Settings gitconfig.Settings
}

// Bounds are the policy's limits for a Spec; where it has none the driver's hold.
func (p Policy) Bounds() sandbox.Limits {
	l := p.Limits
	return sandbox.Limits{Memory: int64(l.Memory), CPU: l.CPU, Processes: l.Processes, Disk: int64(l.Disk), Time: time.Duration(l.Time)}
}

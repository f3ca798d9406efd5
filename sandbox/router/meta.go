package router

import (
	"encoding/json"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// metaKey is the member of _meta that holds what is gander's own.
const metaKey = "gander.dev"

// chosenSandbox is what a _meta says of a sandbox that is not there yet.
type chosenSandbox struct {
	Driver string `json:"driver"`
}

// madeSandbox is what a _meta says of one that is, as gander sandbox status --json does.
type madeSandbox struct {
	chosenSandbox
	Isolated    bool                `json:"isolated"`
	Isolation   string              `json:"isolation"`
	Enforcement sandbox.Enforcement `json:"enforcement"`
	Weaker      []string            `json:"weaker"`
}

func sandboxMeta(about any) json.RawMessage {
	return marshal(map[string]any{metaKey: map[string]any{"sandbox": about}})
}

// meta is the _meta of a response that opens the session.
func (s *session) meta() json.RawMessage {
	s.mu.Lock()
	b, driver := s.backend, s.driver.Name()
	s.mu.Unlock()
	if b.running() {
		return b.sandboxMeta()
	}
	return sandboxMeta(chosenSandbox{driver})
}

func (b *backend) sandboxMeta() json.RawMessage {
	info := b.sb.Info()
	return sandboxMeta(madeSandbox{
		chosenSandbox{b.driver.Name()}, info.Isolated, info.Isolation, info.Enforcement, append([]string{}, info.Weaker...),
	})
}

// saySandbox tells the client what holds in the sandbox that was made: responses come
// before it.
func (b *backend) saySandbox() {
	b.s.send(b.s.now, acp.WithFields(acp.SessionInfoUpdate("", time.Time{}), map[string]any{"_meta": b.sandboxMeta()}))
}

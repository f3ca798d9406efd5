package confine

import (
	"context"
	"net"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/gateway"
)

// The names of the doors that Ways open.
const (
	ModelDoor  = "model"
	EgressDoor = "egress"
)

// A Way says whose way out of a sandbox is to be opened, and how to reach the person.
type Way struct {
	Session    acp.SessionID
	WorkingDir string
	Agent      string
	// Context ends with the session; ways are closed and opened again before that,
	// when an agent is replaced.
	Context context.Context
	// Notice shows the person a sentence. It must not be called after the way is closed.
	Notice func(severity, text string)
	// Decided takes down what was decided about a host. It must not be called after the
	// way is closed.
	Decided func(egress.Tally)
	// Ask has the person decide about a host; nil for what a person runs by hand.
	Ask func(ctx context.Context, host string, port int) egress.Answer
	// Leaks looks at what leaves; may be nil.
	Leaks *Leaks
	// Sent hears what is in a call of the model, before it goes out; may be nil. It must not
	// keep it.
	Sent func(body []byte)
	// Budget holds for model calls beside the policy's, and Observe, which may be nil,
	// hears of each.
	Budget  gateway.Budget
	Observe func(gateway.Event)
}

// Model is the way to the model: the host side of a door.
type Model interface {
	Dial(context.Context) (net.Conn, error)
	// Token is what calls must carry in the place of a key.
	Token() string
	// AbortInFlight ends the model calls that run now.
	AbortInFlight()
	// Proceed lets calls out again that were paused because the agent came no further.
	Proceed()
	Close() error
}

// Egress is the way to hosts other than the model: the host side of a door
// that is a proxy inside.
type Egress interface {
	Dial(context.Context) (net.Conn, error)
	Close() error
}

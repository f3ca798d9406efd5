package sandbox

import (
	"context"
	"encoding/json"
	"net"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// A Hosted is an Agent that runs in gander itself and has no sandbox: it reaches the model
// by Dial, and other agents by what it was made with. Open of one is not called.
type Hosted interface {
	Agent
	// OpenHosted opens a conversation. ctx bounds the opening only.
	OpenHosted(ctx context.Context, p HostedParams) (AgentSession, error)
}

// HostedParams open a conversation with a Hosted. Its functions may be called
// concurrently, while a turn runs.
type HostedParams struct {
	// SessionParams have no addresses, and Servers as the editor passed them.
	SessionParams
	// Session is gander's own id of the session, and Dirs are its additional directories.
	Session acp.SessionID
	Dirs    []string
	// Dial reaches the model, with ModelToken.
	Dial func(context.Context) (net.Conn, error)
	// Children says that the editor shows child sessions: work for the session that is
	// announced as one is seen, asked about and cancelled there.
	Children bool
	// Unkept says that nothing of the session is to be kept.
	Unkept bool
	// Turn returns the id of the turn that runs.
	Turn func() string
	// Chosen returns the person's choices by the ids of the options.
	Chosen func() map[string]string
	// Live shows an update that is not recorded: what comes many times a second.
	Live func(update json.RawMessage)
	// Notice tells the person a sentence, once.
	Notice func(severity, text string)
	// Step takes down a step for the trace of the run.
	Step func(sessions.Step)
}

package sandbox

import (
	"context"
	"encoding/json"

	"gander.dev/gander/acp"
)

// An Agent is a program that speaks ACP and runs inside a sandbox. Methods are
// safe for concurrent use.
type Agent interface {
	// Name is the word for --agent: "goose", "opencode".
	Name() string
	// Check says, without starting anything, what is missing on this machine
	// (the program, the model's address). The error is one sentence for a person
	// that names the fix.
	Check(ctx context.Context) error
	// Mounts are the host paths the agent needs to see, besides the system's.
	Mounts() []Mount
	// Defaults is the state to show before the agent has started for the first time.
	Defaults() AgentState
	// Open starts the agent in sb and opens, or with ResumeID continues, a
	// conversation. ctx bounds the opening only.
	Open(ctx context.Context, sb Sandbox, p SessionParams) (AgentSession, error)
}

// A Member is an Agent that runs the program of another one under a name of its own.
type Member interface {
	// Program is the name of the agent that has the program; Name where it is the same.
	Program() string
}

// ProgramOf returns the name of the agent whose program an agent runs.
func ProgramOf(a Agent) string {
	if m, ok := a.(Member); ok {
		return m.Program()
	}
	return a.Name()
}

// A Skilled agent has skills of its own.
type Skilled interface {
	// HomeLinks are links in the home of its sandbox, as those of Spec.
	HomeLinks() map[string]string
}

// HomeLinksOf returns the links that an agent has in the home of its sandbox.
func HomeLinksOf(a Agent) map[string]string {
	if s, ok := a.(Skilled); ok {
		return s.HomeLinks()
	}
	return nil
}

// A Reader is an Agent that may have to do without writing to the project.
type Reader interface {
	// ReadsOnly reports whether its sandbox shows the project for reading, whatever else is
	// chosen.
	ReadsOnly() bool
}

// ReadsOnly reports whether an agent only reads the project.
func ReadsOnly(a Agent) bool {
	r, ok := a.(Reader)
	return ok && r.ReadsOnly()
}

// A ToolUser is an Agent that can use gander's developer server instead of its own
// tools: it honours SessionParams.Developer.
type ToolUser interface {
	UsesDeveloper()
}

// A OneShot is an Agent that can also work through one instruction and end, as an
// iteration of an unattended loop.
type OneShot interface {
	// OneShot is the command for it in sb, with its whole environment and its working
	// directory. It reads the instruction from stdin to its end and prints what it does
	// to stdout, a line of JSON each; the agent's package has the parser of that. ctx
	// bounds what must be prepared in sb. Of p, WorkingDir, ModelAddr, ModelToken,
	// ProxyAddr, Model, Mode and Env count.
	OneShot(ctx context.Context, sb Sandbox, p SessionParams) (Command, error)
}

// A Rememberer is an Agent that continues a conversation in a new process when the
// files are there in which it keeps it.
type Rememberer interface {
	// Remembers are the paths of these files and directories below the agent's
	// home, with slashes.
	Remembers() []string
}

// SessionParams is what a conversation with an agent needs.
type SessionParams struct {
	WorkingDir string
	// ModelAddr is the address, inside the sandbox, of the door to the model ("127.0.0.1:40123").
	ModelAddr string
	// ModelToken is what calls through that door must carry in the place of a key.
	ModelToken string
	// ProxyAddr is the address, inside, of a proxy to the hosts that a policy allows;
	// empty when there is none.
	ProxyAddr string
	// Model and Mode are what the person chose; empty means the agent's default.
	Model, Mode string
	// Models are those that the endpoint has, for the agent to offer besides its configured one;
	// nil leaves it its own list.
	Models []string
	// ResumeID is the agent's own id of a conversation to continue. An agent
	// that cannot returns an AgentSession that has not Resumed it.
	ResumeID string
	// ResumeWords are words of the last turn that the conversation should have. One that
	// is replayed with none of them has lost its end, and is not resumed; nil asks for none.
	ResumeWords []string
	// Developer is the command, inside the sandbox, of the MCP server whose tools
	// the agent is to use instead of its own; nil leaves it its own.
	Developer []string
	// OutputAddr is the address, inside the sandbox, of the door to which that
	// server tells what its tools print while they run; empty when there is none.
	OutputAddr string
	// Env are variables for the agent, as "NAME=value", besides those it has by its
	// settings.
	Env []string
	// Servers are further MCP servers for the agent, as ACP's mcpServers has them, as
	// they are to be had inside.
	Servers []json.RawMessage
	// FilesAddr is the address, inside the sandbox, of the door through which that
	// server reads and writes what an editor has open; empty when there is none.
	FilesAddr string
	// SystemPrompt holds instructions of the client's: the agent has them as a system prompt where it
	// takes one, else in front of its first prompt.
	SystemPrompt string
	// Capabilities offer the agent something of Client, which answers the requests that go
	// with it as an acp.RequestHandler.
	Capabilities acp.ClientCapabilities
	// Client takes the agent's updates and requests. Those of the conversation itself have no
	// session id, those of its child sessions the agent's own. Updates replayed while a
	// conversation is resumed are not passed on.
	Client acp.Client
}

// AgentState is what an agent offers to choose from.
type AgentState struct {
	Modes         *acp.SessionModeState `json:"modes,omitempty"`
	ConfigOptions []acp.ConfigOption    `json:"configOptions,omitempty"`
	// Notices are sentences about what does not work (an MCP server that failed to start).
	Notices []string `json:"-"`
}

// BridgeVerb is gander's hidden command that connects its standard streams to the
// loopback address that follows.
const BridgeVerb = "bridge"

// OutputVariable is the variable in which gander's developer server finds
// SessionParams.OutputAddr. It sends a ToolOutput per line there, as JSON.
const OutputVariable = "GANDER_OUTPUT_ADDR"

// ToolOutput is what a tool of gander's developer server prints while it runs.
type ToolOutput struct {
	// Tool is its name and Arguments are those of the call, by which the agent's
	// own call is found.
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Text      string          `json:"text"`
}

// FilesVariable is the variable in which gander's developer server finds
// SessionParams.FilesAddr. It sends a FileRequest per line there, as JSON, and gets
// a FileAnswer per line back.
const FilesVariable = "GANDER_FILES_ADDR"

// FileRequest asks an editor for the text of a file, or to change it.
type FileRequest struct {
	// Path is absolute.
	Path string `json:"path"`
	// Write says that Text is to be the file's.
	Write bool   `json:"write,omitempty"`
	Text  string `json:"text,omitempty"`
}

// FileAnswer is the answer.
type FileAnswer struct {
	Text string `json:"text,omitempty"`
	// NoBuffer says that the file is not the editor's to serve: the disk is.
	NoBuffer bool `json:"noBuffer,omitempty"`
	// Error says what went wrong; empty for nothing.
	Error string `json:"error,omitempty"`
}

// An OutputReceiver is an AgentSession of an agent that does not tell what the
// tools of an MCP server print while they run: it makes updates of it.
type OutputReceiver interface {
	ToolOutput(o ToolOutput)
}

// An AgentSession is a live conversation inside a sandbox. One Prompt runs at a time.
type AgentSession interface {
	// ID is the agent's own id, for ResumeID.
	ID() string
	// Resumed reports whether it goes on with the conversation of ResumeID; a new
	// one may happen to have the same id.
	Resumed() bool
	State() AgentState
	// Prompt runs a turn. Updates go to SessionParams.Client, all of them before
	// Prompt returns.
	Prompt(ctx context.Context, prompt []acp.ContentBlock) (*acp.PromptResponse, error)
	// Cancel asks the agent to end the running turn. It does not wait.
	Cancel() error
	SetMode(ctx context.Context, modeID string) error
	SetConfigOption(ctx context.Context, id string, value json.RawMessage) ([]acp.ConfigOption, error)
	// Done is closed when the agent has ended; Err then says how, with its last stderr lines.
	Done() <-chan struct{}
	Err() error
	// Close ends the agent and everything it started.
	Close() error
}

package sessions

import (
	"encoding/json"
	"time"

	"gander.dev/gander/acp"
)

// SchemaVersion is the version of the format that a [Header] states.
const SchemaVersion = 1

// A Type is the "type" of a record.
type Type string

// The types of record this version reads and writes.
const (
	TypeSession     Type = "session"
	TypeMessage     Type = "message"
	TypeCompaction  Type = "compaction"
	TypeUpdate      Type = "update"
	TypePermission  Type = "permission"
	TypeTurn        Type = "turn"
	TypeAgent       Type = "agent"
	TypeNotice      Type = "notice"
	TypeConfig      Type = "config"
	TypeTitle       Type = "title"
	TypeFork        Type = "fork"
	TypePrune       Type = "prune"
	TypeChanges     Type = "changes"
	TypeElicitation Type = "elicitation"
	TypeNetwork     Type = "network"
	TypeChild       Type = "child"
	TypeArchive     Type = "archive"
	TypeRewind      Type = "rewind"
)

// A Record is one line of a transcript.
type Record struct {
	// ID names the record within its session. Append fills in an empty one; only
	// records of other programs have none.
	ID string
	// TurnID is the turn the record belongs to; empty outside of turns.
	TurnID string
	// Time is when it happened, to the millisecond. Append fills in a zero Time.
	Time time.Time
	// Body is the content: a Header, Message, Update and so on, by value.
	Body Body
	// Raw is the line a record was read from, without its newline. It is
	// ignored by Append, except with an Unknown body, which is written as Raw.
	Raw json.RawMessage
}

// Body is the content of a record. It is implemented by the types of this package only.
type Body interface {
	// Type is the record's type on disk.
	Type() Type
}

// Header is the first record: what the session is.
type Header struct {
	SchemaVersion int           `json:"schemaVersion"`
	SessionID     acp.SessionID `json:"sessionId"`
	// SessionKey is the name a person or script refers to the session by.
	SessionKey string `json:"sessionKey"`
	// AgentID is the agent that was chosen when the session was made.
	AgentID   string    `json:"agentId"`
	CreatedAt time.Time `json:"createdAt"`
	// WorkspacePath is the root of the project, WorkingPath the session's
	// working directory, which never changes. Both are absolute.
	WorkspacePath string `json:"workspacePath,omitempty"`
	WorkingPath   string `json:"workingPath,omitempty"`
	// RealPath is WorkingPath without symbolic links, as it was when the session
	// was made; Create fills it in. [Info.CheckDir] compares with it.
	RealPath string `json:"realPath,omitempty"`
	// AdditionalDirectories are what the client added when the session was made.
	AdditionalDirectories []string `json:"additionalDirectories,omitempty"`
	// Origin says who made the session; see [OriginEditor].
	Origin Origin `json:"origin,omitempty"`
	// Temporary means that nothing of the session is to be kept when it is closed. One
	// that nobody has open was left by a process that was killed.
	Temporary bool `json:"temporary,omitempty"`
	// PreviousID is the session that had the key before.
	PreviousID acp.SessionID `json:"previousSessionId,omitempty"`
	// ForkedFrom is the session that the first records are copied from, up to a [Fork].
	ForkedFrom acp.SessionID `json:"forkedFrom,omitempty"`
	// ParentID is the session that this one does work for; it goes with that.
	ParentID acp.SessionID `json:"parentSessionId,omitempty"`
	// ImportedFrom is the file of another program that the records come from.
	ImportedFrom string `json:"importedFrom,omitempty"`
}

// An Origin says who made a session, and so which rules it has.
type Origin string

// The origins of a session. The clock resets those of OriginCLI and OriginLoop
// only; an editor's thread is never closed behind the person's back.
const (
	OriginEditor Origin = "" // a client of ACP
	OriginCLI    Origin = "cli"
	OriginLoop   Origin = "loop"
	OriginImport Origin = "import"
	// OriginDelegate is one in which an agent does what another one gave it, of the session
	// that is its parent. Lists leave it out unless they are asked for it.
	OriginDelegate Origin = "delegate"
)

// A Role says who speaks in a [Message].
type Role string

// The roles of a message.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
)

// Message is something said as a whole: what a person asked. What an agent
// answers in pieces is kept as [Update] records and not repeated as a Message.
type Message struct {
	Role Role `json:"role"`
	// Content is the text of the message.
	Content string `json:"content"`
	// Blocks are the content blocks of a prompt that is more than its text
	// (images, resources).
	Blocks []acp.ContentBlock `json:"blocks,omitempty"`
}

// Compaction says that a summary stands for earlier messages. The messages stay in the file.
type Compaction struct {
	Summary           string `json:"summary"`
	CompactedMessages int    `json:"compactedMessages"`
	KeptMessages      int    `json:"keptMessages"`
	// FirstID and LastID are the range of records that the summary stands for,
	// both included. Without LastID it is everything before this record.
	FirstID string `json:"firstId,omitempty"`
	LastID  string `json:"lastId,omitempty"`
	// By is who wrote the summary: "rule" or "model".
	By string `json:"by,omitempty"`
	// FreshAgent means that agents begin a conversation of their own again, with
	// the summary: what they remember by themselves is what was to become shorter.
	FreshAgent bool `json:"freshAgent,omitempty"`
}

// Update is one session/update on its way from the agent to the client. The
// objects are the "update" members of the notifications and must be valid JSON.
type Update struct {
	// Update is the update as the agent sent it; nil when gander made it itself.
	Update json.RawMessage `json:"update,omitempty"`
	// Sent is what the client got, when that differs: nil means Update
	// unchanged, an empty list that it was held back.
	Sent []json.RawMessage `json:"sent,omitzero"`
	// Child is set where Sent stands for what a child session did, for whoever knows no
	// child sessions: its own updates are in [Child] records.
	Child acp.SessionID `json:"child,omitempty"`
}

// Child is an update of a child session, or one that announces it to the session that it is
// a child of. Clients that know child sessions get it in the place of the updates with the
// same Child.
type Child struct {
	// SessionID is the session that the update is in: this one, or a child of it.
	SessionID acp.SessionID   `json:"sessionId"`
	Update    json.RawMessage `json:"update"`
}

// Permission is a question to the person and its answer. The question is
// recorded when it is asked, without Outcome, and the answer as a second record
// with the same ID, without Request.
type Permission struct {
	// Request is the raw session/request_permission as the client got it.
	Request json.RawMessage `json:"request,omitempty"`
	// Outcome is the raw outcome of the response.
	Outcome json.RawMessage `json:"outcome,omitempty"`
}

// Elicitation is a question of an agent that is no permission, and what came of it: two
// records with one ID, as of a [Permission]. What the person wrote is in neither.
type Elicitation struct {
	// Request is the raw elicitation/create as the client got it.
	Request json.RawMessage `json:"request,omitempty"`
	// Action is "accept", "decline" or "cancel".
	Action string `json:"action,omitempty"`
}

// The events of a [TurnEvent].
const (
	TurnStart = "start"
	TurnEnd   = "end"
)

// TurnEvent marks where a turn starts and ends. A start without an end is a
// turn that a crash cut short.
type TurnEvent struct {
	Event string `json:"event"`
	// Command is set at the start of a turn that no agent saw: the name of the slash
	// command that gander answered. Such turns are part of the thread and not of the
	// conversation, see [History].
	Command string `json:"command,omitempty"`
	// StopReason is set at the end of a turn that was answered, Error at the
	// end of one that was not.
	StopReason acp.StopReason `json:"stopReason,omitempty"`
	Error      string         `json:"error,omitempty"`
	// Agent is who was given the prompt, set at the end of a turn unless nobody
	// was. AgentSessionID is that agent's own id of the conversation when the turn
	// is a part of that: an agent that died in the turn may know nothing of it.
	Agent          string `json:"agent,omitempty"`
	AgentSessionID string `json:"agentSessionId,omitempty"`
	// Usage is the agent's raw token usage, when it gave one.
	Usage json.RawMessage `json:"usage,omitempty"`
	// Cost is what the session's model calls have cost up to the end of the turn, where
	// the person has said what models cost.
	Cost       *acp.Cost `json:"cost,omitempty"`
	DurationMS int64     `json:"durationMs,omitempty"`
}

// The events of an [AgentEvent].
const (
	AgentStarted = "started"
	AgentExited  = "exited"
)

// AgentEvent is the start or the end of the agent's process behind a session.
type AgentEvent struct {
	Event string `json:"event"`
	// Agent is its name ("goose"), AgentSessionID its own id of the conversation.
	Agent          string `json:"agent,omitempty"`
	AgentSessionID string `json:"agentSessionId,omitempty"`
	// Resumed means that it goes on with that conversation; else it begins one,
	// which may have an id of before.
	Resumed bool `json:"resumed,omitempty"`
	// Weaker says what the sandbox lacks in which it was started.
	Weaker []string `json:"weaker,omitempty"`
	// Version is what the agent says of itself.
	Version string `json:"version,omitempty"`
	// ExitCode is set when it exited by itself, Error when it could not start
	// or ended otherwise, Stderr holds its last lines.
	ExitCode *int   `json:"exitCode,omitempty"`
	Error    string `json:"error,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
}

// Notice is a sentence the person was shown that no agent said.
type Notice struct {
	Level string `json:"level,omitempty"`
	Text  string `json:"text"`
}

// Network is what was decided about connections out of the sandbox. One that is
// repeated comes again, with its number, when that is ten times as large, and in the end.
type Network struct {
	// Host is empty where decisions are only counted because there were too many
	// different ones. Port is 0 where none was named.
	Host    string `json:"host,omitempty"`
	Port    int    `json:"port,omitempty"`
	Allowed bool   `json:"allowed"`
	// By is the rule, or the person's answer, that allowed it; Reason is why it was refused.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Times is how often the session has had this decision so far.
	Times int `json:"times"`
}

// ConfigChange is a config option set by the client, or by the agent.
type ConfigChange struct {
	ConfigID string `json:"configId"`
	// Value is the raw value: a JSON string or boolean.
	Value json.RawMessage `json:"value"`
}

// Title is the session's title, from then on.
type Title struct {
	Title string `json:"title"`
	// By is who chose it: "person", or "agent".
	By string `json:"by,omitempty"`
}

// Archive says whether the session is archived, from then on.
type Archive struct {
	Archived bool `json:"archived"`
}

// Fork is the end of the records that were copied from another session. What the
// agents know by themselves belongs to that one.
type Fork struct {
	From acp.SessionID `json:"from"`
}

// Prune says that the records up to LastID are not given to agents any more. They
// stay in the file. Agents begin a conversation of their own again.
type Prune struct {
	// LastID is the last record that does not count; empty means all before this one.
	LastID         string `json:"lastId,omitempty"`
	PrunedMessages int    `json:"prunedMessages"`
	KeptMessages   int    `json:"keptMessages"`
}

// Changes are the files that differ after a turn from before it, found by comparing content.
type Changes struct {
	Paths []ChangedPath `json:"paths,omitempty"`
	// NotCompared are directories that were too large to compare, relative to the working directory.
	NotCompared []string `json:"notCompared,omitempty"`
	// Omitted is how many more paths changed than are listed.
	Omitted int `json:"omitted,omitempty"`
	// Snapshot names what the files were before, in the store of snapshots.
	Snapshot string `json:"snapshot,omitempty"`
	// Note says in words what the paths do not: commits made, why nothing could be compared.
	Note string `json:"note,omitempty"`
}

// A ChangedPath is a file that a turn changed.
type ChangedPath struct {
	// Path is relative to the working directory, with slashes. A name that is not
	// UTF-8 has its other bytes as %XX and Escaped set.
	Path    string `json:"path"`
	Escaped bool   `json:"escaped,omitempty"`
	// Change is "created", "modified", "deleted", "renamed" or "mode".
	Change string `json:"change"`
	// From is the former path of one that was renamed.
	From string `json:"from,omitempty"`
}

// Unknown is a record of a type this version does not know, or whose shape is
// not the type's. Kind is empty for a line that is not a JSON object, as a crash
// of the machine may leave them.
type Unknown struct {
	Kind Type `json:"-"`
}

// Type is "session".
func (Header) Type() Type { return TypeSession }

// Type is "message".
func (Message) Type() Type { return TypeMessage }

// Type is "compaction".
func (Compaction) Type() Type { return TypeCompaction }

// Type is "update".
func (Update) Type() Type { return TypeUpdate }

// Type is "permission".
func (Permission) Type() Type { return TypePermission }

// Type is "elicitation".
func (Elicitation) Type() Type { return TypeElicitation }

// Type is "turn".
func (TurnEvent) Type() Type { return TypeTurn }

// Type is "agent".
func (AgentEvent) Type() Type { return TypeAgent }

// Type is "notice".
func (Notice) Type() Type { return TypeNotice }

// Type is "network".
func (Network) Type() Type { return TypeNetwork }

// Type is "config".
func (ConfigChange) Type() Type { return TypeConfig }

// Type is "title".
func (Title) Type() Type { return TypeTitle }

// Type is "fork".
func (Fork) Type() Type { return TypeFork }

// Type is "prune".
func (Prune) Type() Type { return TypePrune }

// Type is "rewind".
func (Rewind) Type() Type { return TypeRewind }

// Type is "child".
func (Child) Type() Type { return TypeChild }

// Type is "archive".
func (Archive) Type() Type { return TypeArchive }

// Type is "changes".
func (Changes) Type() Type { return TypeChanges }

// Type is what the line says.
func (u Unknown) Type() Type { return u.Kind }

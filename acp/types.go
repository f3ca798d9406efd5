package acp

import "encoding/json"

// The acp tags of this file say what a receiver insists on; see decode.

// ProtocolVersion is the ACP version this package speaks. A peer that asks for
// another one is answered with this number (initialization, ACP v1).
const ProtocolVersion = 1

// SessionID names a session on one connection. It is opaque to the client.
type SessionID string

// Implementation describes a client or an agent to its peer.
type Implementation struct {
	Name    string `json:"name" acp:"required"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// InitializeRequest opens a connection.
type InitializeRequest struct {
	ProtocolVersion    int                `json:"protocolVersion" acp:"required"`
	ClientCapabilities ClientCapabilities `json:"clientCapabilities"`
	ClientInfo         *Implementation    `json:"clientInfo,omitempty"`
	Meta               json.RawMessage    `json:"_meta,omitempty"`
}

// ClientCapabilities says what the client can do. Whatever is absent, null or
// ill-typed counts as not offered (x-deserialize-default-on-error).
type ClientCapabilities struct {
	FS          FileSystemCapability       `json:"fs"`
	Terminal    bool                       `json:"terminal,omitempty"`
	Session     ClientSessionCapabilities  `json:"session,omitzero"`
	Elicitation ElicitationCapabilities    `json:"elicitation,omitzero"`
	Auth        ClientAuthCapabilities     `json:"auth,omitzero"`
	Plan        json.RawMessage            `json:"plan,omitempty" acp:"object"`
	Subagents   json.RawMessage            `json:"subagents,omitempty" acp:"object"`
	Meta        map[string]json.RawMessage `json:"_meta,omitempty"`
}

// FileSystemCapability is what the client offers of its file system.
type FileSystemCapability struct {
	ReadTextFile  bool `json:"readTextFile"`
	WriteTextFile bool `json:"writeTextFile"`
}

// ClientSessionCapabilities are the client's session features; a non-nil,
// non-null member is offered.
type ClientSessionCapabilities struct {
	ConfigOptions *ConfigOptionsCapability `json:"configOptions,omitempty"`
	Notices       json.RawMessage          `json:"notices,omitempty" acp:"object"`
	Compaction    json.RawMessage          `json:"compaction,omitempty" acp:"object"`
	// PromptSuggestions is of the unstable part of v1.
	PromptSuggestions json.RawMessage `json:"promptSuggestions,omitempty" acp:"object"`
}

// ConfigOptionsCapability says which kinds of config option beyond select the client renders.
type ConfigOptionsCapability struct {
	Boolean json.RawMessage `json:"boolean,omitempty" acp:"object"`
}

// ElicitationCapabilities are the elicitation modes the client offers.
type ElicitationCapabilities struct {
	Form json.RawMessage `json:"form,omitempty" acp:"object"`
	URL  json.RawMessage `json:"url,omitempty" acp:"object"`
}

// ClientAuthCapabilities are the client's authentication features.
type ClientAuthCapabilities struct {
	Terminal bool `json:"terminal,omitempty"`
}

// InitializeResponse answers InitializeRequest.
type InitializeResponse struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities AgentCapabilities `json:"agentCapabilities"`
	AgentInfo         *Implementation   `json:"agentInfo,omitempty"`
	AuthMethods       []AuthMethod      `json:"authMethods"`
	Meta              json.RawMessage   `json:"_meta,omitempty"`
}

// AgentCapabilities says what the agent can do.
type AgentCapabilities struct {
	LoadSession         bool                `json:"loadSession"`
	PromptCapabilities  PromptCapabilities  `json:"promptCapabilities"`
	MCPCapabilities     MCPCapabilities     `json:"mcpCapabilities"`
	SessionCapabilities SessionCapabilities `json:"sessionCapabilities"`
	Auth                json.RawMessage     `json:"auth,omitempty"`
	Meta                json.RawMessage     `json:"_meta,omitempty"`
}

// PromptCapabilities are the content blocks, beyond text and resource_link, that a prompt may hold.
type PromptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

// MCPCapabilities are the MCP transports, beyond stdio, that session/new may name.
type MCPCapabilities struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
}

// Supported marks an offered capability; it is the empty JSON object.
type Supported struct{}

// SessionCapabilities are the optional session methods; nil is not offered.
type SessionCapabilities struct {
	List                  *Supported `json:"list,omitempty"`
	Resume                *Supported `json:"resume,omitempty"`
	Close                 *Supported `json:"close,omitempty"`
	Delete                *Supported `json:"delete,omitempty"`
	Fork                  *Supported `json:"fork,omitempty"`  // unstable
	Title                 *Supported `json:"title,omitempty"` // unstable: session/set_title
	AdditionalDirectories *Supported `json:"additionalDirectories,omitempty"`
	SystemPrompt          *Supported `json:"systemPrompt,omitempty"`
	Archive               *Supported `json:"archive,omitempty"` // unstable, as the next two
	Status                *Supported `json:"status,omitempty"`
	Options               *Supported `json:"options,omitempty"`
}

// AuthMethod is one way to authenticate. Type is empty (the agent does it) or "terminal".
type AuthMethod struct {
	Type        string            `json:"type,omitempty"`
	ID          string            `json:"id" acp:"required"`
	Name        string            `json:"name" acp:"required"`
	Description string            `json:"description,omitempty"`
	Args        []string          `json:"args,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	Meta        json.RawMessage   `json:"_meta,omitempty"`
}

// AuthenticateRequest chooses one of the advertised AuthMethods.
type AuthenticateRequest struct {
	MethodID string          `json:"methodId" acp:"required"`
	Meta     json.RawMessage `json:"_meta,omitempty"`
}

// AuthenticateResponse is empty.
type AuthenticateResponse struct{}

// MCPServerStdio is an MCP server that is a program (schema McpServerStdio).
type MCPServerStdio struct {
	Name    string        `json:"name"`
	Command string        `json:"command"`
	Args    []string      `json:"args"`
	Env     []EnvVariable `json:"env"`
}

// EnvVariable is a variable of a program's environment.
type EnvVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Wishes hold the requests of a client for a session that it opens, beside its place.
type Wishes struct {
	SystemPrompt *SystemPrompt `json:"systemPrompt,omitempty" acp:"strict"`
	// ConfigOptions are values that the session is to begin with (unstable).
	ConfigOptions []InitialOption `json:"configOptions,omitempty" acp:"strict"`
}

// SystemPrompt holds instructions of the client's for the agent. Mode is PromptAppend, or
// "override" where the agent offers that.
type SystemPrompt struct {
	Mode    string          `json:"mode" acp:"required"`
	Content []ContentBlock  `json:"content" acp:"required"`
	Meta    json.RawMessage `json:"_meta,omitempty"`
}

// PromptAppend is the mode of a SystemPrompt that comes beside the agent's own.
const PromptAppend = "append"

// InitialOption is a value of a config option: a JSON string, or a boolean with Type "boolean".
type InitialOption struct {
	ConfigID string          `json:"configId" acp:"required"`
	Type     string          `json:"type,omitempty"`
	Value    json.RawMessage `json:"value" acp:"required"`
}

// NewSessionRequest is session/new. CWD and AdditionalDirectories are absolute.
type NewSessionRequest struct {
	CWD                   string            `json:"cwd" acp:"required"`
	MCPServers            []json.RawMessage `json:"mcpServers" acp:"list"`
	AdditionalDirectories []string          `json:"additionalDirectories,omitempty" acp:"strict"`
	Wishes
	Meta json.RawMessage `json:"_meta,omitempty"`
}

// NewSessionResponse answers NewSessionRequest.
type NewSessionResponse struct {
	SessionID     SessionID         `json:"sessionId" acp:"required"`
	Modes         *SessionModeState `json:"modes,omitempty"`
	ConfigOptions []ConfigOption    `json:"configOptions,omitempty"`
	Meta          json.RawMessage   `json:"_meta,omitempty"`
}

// LoadSessionRequest is session/load; the agent replays the conversation before it answers.
type LoadSessionRequest struct {
	SessionID             SessionID         `json:"sessionId" acp:"required"`
	CWD                   string            `json:"cwd" acp:"required"`
	MCPServers            []json.RawMessage `json:"mcpServers" acp:"list"`
	AdditionalDirectories []string          `json:"additionalDirectories,omitempty" acp:"strict"`
	Wishes
	Meta json.RawMessage `json:"_meta,omitempty"`
}

// LoadSessionResponse answers LoadSessionRequest.
type LoadSessionResponse struct {
	Modes         *SessionModeState `json:"modes,omitempty"`
	ConfigOptions []ConfigOption    `json:"configOptions,omitempty"`
	Meta          json.RawMessage   `json:"_meta,omitempty"`
}

// CloseSessionRequest is session/close.
type CloseSessionRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// CloseSessionResponse is empty.
type CloseSessionResponse struct{}

// SessionModeState is the legacy mode selector, kept in sync with the config option of category mode.
type SessionModeState struct {
	CurrentModeID  string        `json:"currentModeId" acp:"required"`
	AvailableModes []SessionMode `json:"availableModes"`
}

// SessionMode is one mode an agent can work in.
type SessionMode struct {
	ID          string `json:"id" acp:"required"`
	Name        string `json:"name" acp:"required"`
	Description string `json:"description,omitempty"`
}

// SetSessionModeRequest is session/set_mode.
type SetSessionModeRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	ModeID    string          `json:"modeId" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// SetSessionModeResponse is empty.
type SetSessionModeResponse struct{}

// SetSessionModelRequest is session/set_model.
type SetSessionModelRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	ModelID   string          `json:"modelId" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// SetSessionModelResponse is empty.
type SetSessionModelResponse struct{}

// Config option categories of ACP v1. They only steer how a client shows an option.
const (
	CategoryMode         = "mode"
	CategoryModel        = "model"
	CategoryModelConfig  = "model_config"
	CategoryThoughtLevel = "thought_level"
)

// ConfigOption is one selector a client shows. Type is "select" (CurrentValue is
// the JSON string of a value) or "boolean" (CurrentValue is a JSON boolean, no Options).
type ConfigOption struct {
	ID           string          `json:"id" acp:"required"`
	Name         string          `json:"name" acp:"required"`
	Description  string          `json:"description,omitempty"`
	Category     string          `json:"category,omitempty"`
	Type         string          `json:"type" acp:"required"`
	CurrentValue json.RawMessage `json:"currentValue" acp:"required"`
	// Options is a list of ConfigOptionValue or of groups of them, kept raw so
	// that an inner agent's fields survive.
	Options json.RawMessage `json:"options,omitempty"`
	Meta    json.RawMessage `json:"_meta,omitempty"`
}

// ConfigOptionValue is one choice of a select option.
type ConfigOptionValue struct {
	Value       string          `json:"value"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Meta        json.RawMessage `json:"_meta,omitempty"`
}

// SetConfigOptionRequest is session/set_config_option. Value is a JSON string, or
// a JSON boolean with Type "boolean".
type SetConfigOptionRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	ConfigID  string          `json:"configId" acp:"required"`
	Type      string          `json:"type,omitempty"`
	Value     json.RawMessage `json:"value" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// SetConfigOptionResponse carries the complete list of options.
type SetConfigOptionResponse struct {
	ConfigOptions []ConfigOption  `json:"configOptions"`
	Meta          json.RawMessage `json:"_meta,omitempty"`
}

// ContentBlock is one raw content block of a prompt or message; see ParseContentBlock.
type ContentBlock = json.RawMessage

// PromptRequest is session/prompt.
type PromptRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	Prompt    []ContentBlock  `json:"prompt" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// StopReason says why a turn ended.
type StopReason string

// The stop reasons of ACP v1.
const (
	StopEndTurn         StopReason = "end_turn"
	StopMaxTokens       StopReason = "max_tokens"
	StopMaxTurnRequests StopReason = "max_turn_requests"
	StopRefusal         StopReason = "refusal"
	StopCancelled       StopReason = "cancelled"
)

// PromptResponse ends a turn. Usage is the raw unstable token usage, when the agent gave one.
type PromptResponse struct {
	StopReason StopReason      `json:"stopReason" acp:"required"`
	Usage      json.RawMessage `json:"usage,omitempty"`
	Meta       json.RawMessage `json:"_meta,omitempty"`
}

// CancelNotification is session/cancel.
type CancelNotification struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// SessionNotification is session/update. Update is raw, so that unknown kinds,
// unknown fields and _meta pass through a proxy unchanged.
type SessionNotification struct {
	SessionID SessionID       `json:"sessionId"`
	Update    json.RawMessage `json:"update"`
	Meta      json.RawMessage `json:"_meta,omitempty"`

	// arrived is Update as it came off a line, where it was found to be sound.
	arrived json.RawMessage
}

// RequestPermissionRequest is session/request_permission. ToolCall is a raw ToolCallUpdate.
type RequestPermissionRequest struct {
	SessionID SessionID          `json:"sessionId" acp:"required"`
	ToolCall  json.RawMessage    `json:"toolCall" acp:"required"`
	Options   []PermissionOption `json:"options"`
	Meta      json.RawMessage    `json:"_meta,omitempty"`
}

// PermissionOption is one answer a person may give. Kind is allow_once,
// allow_always, reject_once or reject_always.
type PermissionOption struct {
	OptionID string          `json:"optionId" acp:"required"`
	Name     string          `json:"name" acp:"required"`
	Kind     string          `json:"kind"`
	Meta     json.RawMessage `json:"_meta,omitempty"`
}

// RequestPermissionResponse carries the person's answer.
type RequestPermissionResponse struct {
	Outcome PermissionOutcome `json:"outcome" acp:"required"`
	Meta    json.RawMessage   `json:"_meta,omitempty"`
}

// PermissionOutcome is "cancelled", or "selected" with OptionID.
type PermissionOutcome struct {
	Outcome  string `json:"outcome" acp:"required"`
	OptionID string `json:"optionId,omitempty"`
}

// CancelledOutcome is the answer to a permission request whose turn was cancelled.
func CancelledOutcome() *RequestPermissionResponse {
	return &RequestPermissionResponse{Outcome: PermissionOutcome{Outcome: "cancelled"}}
}

package acp

import (
	"encoding/json"
	"strings"
	"time"
)

// The kinds of update that carry one piece of a message.
const (
	AgentMessageChunk = "agent_message_chunk"
	AgentThoughtChunk = "agent_thought_chunk"
	UserMessageChunk  = "user_message_chunk"
)

const (
	kindToolCall       = "tool_call"
	kindToolCallUpdate = "tool_call_update"
	kindNotice         = "notice"
)

// UpdateKind is the sessionUpdate member of a raw update, which must be valid
// JSON; empty when there is none.
func UpdateKind(update json.RawMessage) string {
	kind := member(update, "sessionUpdate")
	switch string(kind) { // without allocating for the frequent ones
	case `"agent_message_chunk"`:
		return AgentMessageChunk
	case `"agent_thought_chunk"`:
		return AgentThoughtChunk
	case `"tool_call_update"`:
		return kindToolCallUpdate
	}
	s, _ := text(kind)
	return s
}

type chunk struct {
	SessionUpdate string       `json:"sessionUpdate"`
	MessageID     string       `json:"messageId,omitempty"`
	Content       ContentBlock `json:"content"`
}

// MessageChunk is a piece of text of a message: kind is AgentMessageChunk,
// AgentThoughtChunk or UserMessageChunk. An empty messageID is left out.
func MessageChunk(kind, messageID, text string) json.RawMessage {
	return encode(chunk{SessionUpdate: kind, MessageID: messageID, Content: TextBlock(text)})
}

// NoticeUpdate is a notice to the person; severity is info, warning or error.
// Only clients with the capability session.notices get it.
func NoticeUpdate(severity, title, description string) json.RawMessage {
	return encode(struct {
		SessionUpdate string `json:"sessionUpdate"`
		Severity      string `json:"severity"`
		Title         string `json:"title"`
		Description   string `json:"description,omitempty"`
	}{kindNotice, severity, title, description})
}

// ToolCallFinal ends a tool call: status is completed or failed. An empty text
// leaves the content as it was.
func ToolCallFinal(toolCallID, status, text string) json.RawMessage {
	var content []json.RawMessage
	if text != "" {
		content = append(content, ToolContent(text))
	}
	return ToolCallProgress(toolCallID, status, content)
}

// ToolCallProgress is a tool_call_update. An empty status or a nil content
// leaves that as it was; a content replaces the one before.
func ToolCallProgress(toolCallID, status string, content []json.RawMessage) json.RawMessage {
	return encode(struct {
		SessionUpdate string            `json:"sessionUpdate"`
		ToolCallID    string            `json:"toolCallId"`
		Status        string            `json:"status,omitempty"`
		Content       []json.RawMessage `json:"content,omitempty"`
	}{kindToolCallUpdate, toolCallID, status, content})
}

// ToolContent is one item of a tool call's content that shows text.
func ToolContent(text string) json.RawMessage {
	return encode(struct {
		Type    string       `json:"type"`
		Content ContentBlock `json:"content"`
	}{"content", TextBlock(text)})
}

// ToolText is the text that the content of a tool call shows.
func ToolText(content []json.RawMessage) string {
	var b strings.Builder
	for _, raw := range content {
		var item struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if json.Unmarshal(raw, &item) == nil {
			b.WriteString(item.Content.Text)
		}
	}
	return b.String()
}

// A ChildUpdate is a subagent_update: what a session says of a child session of its own.
// Empty members are left out, and leave that as it was. Only clients with the capability
// subagents get it.
type ChildUpdate struct {
	SessionID    SessionID          `json:"sessionId" acp:"required"`
	Title        string             `json:"title,omitempty"`
	Description  string             `json:"description,omitempty"`
	Capabilities *ChildCapabilities `json:"capabilities,omitempty"`
	State        *ChildState        `json:"state,omitempty"`
	CWD          string             `json:"cwd,omitempty"`
}

// ChildCapabilities say what a client may do to a child session; nil is not offered.
type ChildCapabilities struct {
	Cancel *Supported `json:"cancel,omitempty"`
}

// ChildState says whether a child session works: ChildRunning, or ChildIdle with a stop
// reason, which is StopError where Error says how it failed.
type ChildState struct {
	State      string          `json:"state" acp:"required"`
	StopReason StopReason      `json:"stopReason,omitempty"`
	Error      *Error          `json:"error,omitempty"`
	Usage      json.RawMessage `json:"usage,omitempty"`
}

// The states of a ChildState that gander makes itself, and the stop reason of a failure.
const (
	ChildRunning            = "running"
	ChildIdle               = "idle"
	StopError    StopReason = "error"
)

// KindChild is the kind of a ChildUpdate.
const KindChild = "subagent_update"

// MarshalJSON implements json.Marshaler.
func (u ChildUpdate) MarshalJSON() ([]byte, error) {
	type plain ChildUpdate
	return marshal(struct {
		SessionUpdate string `json:"sessionUpdate"`
		plain
	}{KindChild, plain(u)})
}

// CurrentModeUpdate says which mode the session is in now.
func CurrentModeUpdate(modeID string) json.RawMessage {
	return encode(struct {
		SessionUpdate string `json:"sessionUpdate"`
		CurrentModeID string `json:"currentModeId"`
	}{"current_mode_update", modeID})
}

// ConfigOptionUpdate carries the complete list of config options.
func ConfigOptionUpdate(options []ConfigOption) json.RawMessage {
	if options == nil {
		options = []ConfigOption{}
	}
	return encode(struct {
		SessionUpdate string         `json:"sessionUpdate"`
		ConfigOptions []ConfigOption `json:"configOptions"`
	}{"config_option_update", options})
}

// The states of a CompactionUpdate.
const (
	CompactionInProgress = "in_progress"
	CompactionCompleted  = "completed"
	CompactionFailed     = "failed"
	CompactionCancelled  = "cancelled"
)

// CompactionUpdate tells of a compaction of the conversation: status is one of
// the constants; summary, when not empty, is what stands for what was compacted.
// Only clients with the capability session.compaction get it.
func CompactionUpdate(id, status, summary, failure string) json.RawMessage {
	u := struct {
		SessionUpdate string         `json:"sessionUpdate"`
		CompactionID  string         `json:"compactionId"`
		Status        string         `json:"status"`
		Summary       []ContentBlock `json:"summary,omitempty"`
		Error         string         `json:"error,omitempty"`
	}{SessionUpdate: "compaction_update", CompactionID: id, Status: status, Error: failure}
	if summary != "" {
		u.Summary = []ContentBlock{TextBlock(summary)}
	}
	return encode(u)
}

// AvailableCommand is a slash command. A non-empty Hint says what may follow it.
type AvailableCommand struct {
	Name, Description, Hint string
}

// MarshalJSON implements json.Marshaler.
func (c AvailableCommand) MarshalJSON() ([]byte, error) {
	type input struct {
		Hint string `json:"hint"`
	}
	v := struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Input       *input `json:"input,omitempty"`
	}{Name: c.Name, Description: c.Description}
	if c.Hint != "" {
		v.Input = &input{c.Hint}
	}
	return marshal(v)
}

// AvailableCommandsUpdate carries the complete list of slash commands.
func AvailableCommandsUpdate(commands []AvailableCommand) json.RawMessage {
	if commands == nil {
		commands = []AvailableCommand{}
	}
	return encode(struct {
		SessionUpdate     string             `json:"sessionUpdate"`
		AvailableCommands []AvailableCommand `json:"availableCommands"`
	}{"available_commands_update", commands})
}

// SessionInfoUpdate names the session. An empty title or a zero time leaves that as it was.
func SessionInfoUpdate(title string, updatedAt time.Time) json.RawMessage {
	return encode(struct {
		SessionUpdate string    `json:"sessionUpdate"`
		Title         string    `json:"title,omitempty"`
		UpdatedAt     time.Time `json:"updatedAt,omitzero"`
	}{"session_info_update", title, updatedAt})
}

// liveOutput is the _meta key toolNotification of a tool_call_update.
type liveOutput struct {
	Type   string           `json:"type"`
	Params liveOutputParams `json:"params"`
}

type liveOutputParams struct {
	Chunks []liveOutputChunk `json:"chunks"`
}

type liveOutputChunk struct {
	Output string `json:"output"`
}

const (
	toolNotification = "toolNotification"
	typeLiveOutput   = "live_output"
)

// LiveOutput is what a tool has printed since the update before, where an agent
// says so in the _meta of a tool_call_update: goose does, under toolNotification,
// and leaves the content empty until the tool has ended.
func LiveOutput(meta map[string]json.RawMessage) string {
	var n liveOutput
	if json.Unmarshal(meta[toolNotification], &n) != nil || n.Type != typeLiveOutput {
		return ""
	}
	var b strings.Builder
	for _, c := range n.Params.Chunks {
		b.WriteString(c.Output)
	}
	return b.String()
}

// LiveOutputMeta is a _meta of which LiveOutput is text.
func LiveOutputMeta(text string) map[string]any {
	return map[string]any{toolNotification: liveOutput{typeLiveOutput, liveOutputParams{[]liveOutputChunk{{text}}}}}
}

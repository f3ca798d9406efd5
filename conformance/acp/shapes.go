package acp

// shapes are the messages of ACP version 1 that an agent sends, stable and
// unstable, in a notation of their own: "Name: field type, field! type, ...". A
// field with ! is required. A type is string, bool, any, object, number, int,
// uint16, uint32, uint64, path (a string that has to be absolute), a shape, a
// list of a type in brackets, a choice of words in parentheses, or one of these
// with ? for "or null". "Name by field: word Shape, ..." is a union.
//
// _meta belongs to every object. What is unstable is listed so that it is no
// field of the agent's own.
const shapes = `
Initialize: protocolVersion! uint16, agentCapabilities AgentCapabilities, agentInfo Implementation?, authMethods [AuthMethod]
Implementation: name! string, title string?, version! string
AgentCapabilities: loadSession bool, promptCapabilities PromptCapabilities, mcpCapabilities MCPCapabilities, sessionCapabilities SessionCapabilities, auth Auth, providers object?
PromptCapabilities: image bool, audio bool, embeddedContext bool
MCPCapabilities: http bool, sse bool, acp bool
SessionCapabilities: list object?, resume object?, close object?, delete object?, additionalDirectories object?, fork object?, archive object?, status object?, title object?, systemPrompt object?, options object?
Auth: logout object?, status object?
AuthMethod: id! string, name! string, description string?, type (terminal|agent), args [string], env object
Empty:
Session: sessionId! string, modes Modes?, configOptions [ConfigOption]?, models any
Opened: sessionId string, modes Modes?, configOptions [ConfigOption]?, models any
Modes: currentModeId! string, availableModes! [Mode]
Mode: id! string, name! string, description string?
ConfigOption by type: select Select, boolean Switch
Select: id! string, name! string, description string?, category string?, type! string, currentValue! string, options! [Choice]
Switch: id! string, name! string, description string?, category string?, type! string, currentValue! bool
Choice by group?: Value, Group
Value: value! string, name! string, description string?
Group: group! string, name! string, options! [Value]
Sessions: sessions! [SessionInfo], nextCursor string?
SessionInfo: sessionId! string, cwd! path, additionalDirectories [path], title string?, updatedAt string?, archived bool
Status: status! (open|saved)
AuthStatus: state! string, accounts [object]
Title: title string?
Options: configOptions! [ConfigOption]
Prompt: stopReason! (end_turn|max_tokens|max_turn_requests|refusal|cancelled), usage Usage?, userMessageId string?
Usage: totalTokens! uint64, inputTokens! uint64, outputTokens! uint64, thoughtTokens uint64?, cachedReadTokens uint64?, cachedWriteTokens uint64?
Update: sessionId! string, update! AnUpdate
AnUpdate by sessionUpdate: user_message_chunk Chunk, agent_message_chunk Chunk, agent_thought_chunk Chunk, tool_call ToolCall, tool_call_update ToolCallUpdate, plan Plan, available_commands_update Commands, current_mode_update CurrentMode, config_option_update OptionUpdate, session_info_update Info, usage_update Used, notice Notice, compaction_update Compaction, compaction_summary_chunk CompactionChunk, plan_update Open, plan_removed Open, subagent_update Open, session_message Open, session_message_chunk Open, prompt_suggestions_update Open
Chunk: sessionUpdate string, content! Content, messageId string?
Content by type: text Text, image Image, audio Audio, resource_link Link, resource Resource
Text: type string, text! string, annotations Annotations?
Image: type string, data! string, mimeType! string, uri string?, annotations Annotations?
Audio: type string, data! string, mimeType! string, annotations Annotations?
Link: type string, uri! string, name! string, mimeType string?, title string?, description string?, size int?, annotations Annotations?
Resource: type string, resource! ResourceContents, annotations Annotations?
ResourceContents by text?: Blob, TextContents
TextContents: uri! string, text! string, mimeType string?
Blob: uri! string, blob! string, mimeType string?
Annotations: audience [(assistant|user)]?, lastModified string?, priority number?
ToolCall: sessionUpdate string, toolCallId! string, title! string, name string?, kind (read|edit|delete|move|search|execute|think|fetch|switch_mode|other), status (pending|in_progress|completed|failed), content [ToolContent], locations [Location], rawInput any, rawOutput any
ToolCallUpdate: sessionUpdate string, toolCallId! string, title string?, name string?, kind (read|edit|delete|move|search|execute|think|fetch|switch_mode|other)?, status (pending|in_progress|completed|failed)?, content [ToolContent]?, locations [Location]?, rawInput any, rawOutput any
ToolContent by type: content Block, diff Diff, terminal Terminal
Block: type string, content! Content
Diff: type string, path! path, oldText string?, newText! string
Terminal: type string, terminalId! string
Location: path! path, line uint32?
Plan: sessionUpdate string, entries! [PlanEntry]
PlanEntry: content! string, priority! (high|medium|low), status! (pending|in_progress|completed)
Commands: sessionUpdate string, availableCommands! [Command]
Command: name! string, description! string, input Input?
Input: hint! string
CurrentMode: sessionUpdate string, currentModeId! string
OptionUpdate: sessionUpdate string, configOptions! [ConfigOption]
Info: sessionUpdate string, title string?, updatedAt string?
Used: sessionUpdate string, used! uint64, size! uint64, cost Cost?
Cost: amount! number, currency! string
Notice: sessionUpdate string, severity! string, title! string, description string?
Compaction: sessionUpdate string, compactionId! string, status! string, summary [Content]?, error string?
CompactionChunk: sessionUpdate string, compactionId! string, content! Content
Open: *
Permission: sessionId! string, toolCall! ToolCallUpdate, options! [PermissionOption]
PermissionOption: optionId! string, name! string, kind! (allow_once|allow_always|reject_once|reject_always)
ReadFile: sessionId! string, path! path, line uint32?, limit uint32?
WriteFile: sessionId! string, path! path, content! string
CreateTerminal: sessionId! string, command! string, args [string]?, env [Variable]?, cwd path?, outputByteLimit uint64?
Variable: name! string, value! string
OfTerminal: sessionId! string, terminalId! string
Elicitation: message! string, mode! string, sessionId string, toolCallId string?, requestId any, requestedSchema object, elicitationId string, url string
ElicitationDone: elicitationId! string
CancelRequest: requestId! any
`

// results are the shapes of the answers to the client's requests.
func results() map[string]string {
	return map[string]string{
		"initialize": "Initialize", "authenticate": "Empty", "logout": "Empty",
		"session/new": "Session", "session/fork": "Session", "session/load": "Opened", "session/resume": "Opened",
		"session/close": "Empty", "session/delete": "Empty", "session/list": "Sessions", "session/prompt": "Prompt",
		"session/set_mode": "Empty", "session/set_model": "Empty", "session/set_config_option": "Options",
		"session/archive": "Empty", "session/unarchive": "Empty", "session/status": "Status", "session/set_title": "Title",
		"session/options": "Opened", "auth/status": "AuthStatus",
	}
}

// asked are the shapes of what an agent asks of a client, with the capability
// that the client has to offer for it; told those of what it tells.
func asked() map[string]struct{ shape, capability string } {
	return map[string]struct{ shape, capability string }{
		"session/request_permission": {"Permission", ""},
		"fs/read_text_file":          {"ReadFile", "fs.readTextFile"},
		"fs/write_text_file":         {"WriteFile", "fs.writeTextFile"},
		"terminal/create":            {"CreateTerminal", "terminal"},
		"terminal/output":            {"OfTerminal", "terminal"},
		"terminal/wait_for_exit":     {"OfTerminal", "terminal"},
		"terminal/kill":              {"OfTerminal", "terminal"},
		"terminal/release":           {"OfTerminal", "terminal"},
		"elicitation/create":         {"Elicitation", "elicitation"},
	}
}

func told() map[string]string {
	return map[string]string{"session/update": "Update", "elicitation/complete": "ElicitationDone", "$/cancel_request": "CancelRequest"}
}

package acp

// The words of RFC 2119.
const must, should, may = "MUST", "SHOULD", "MAY"

// A Requirement is one sentence of what an agent has to do.
type Requirement struct {
	Number int
	// Section is where the protocol says it: a page of the documentation of ACP
	// version 1, "schema" for its JSON schema, "JSON-RPC" for JSON-RPC 2.0;
	// "clients" is what editors in use insist on or their users report.
	Section string
	// Word is from RFC 2119; where the source says none, MUST is meant.
	Word string
	Text string
}

// Requirements is the whole list. Numbers are never reused.
func Requirements() []Requirement {
	return []Requirement{
		{1, "transports: stdio", must, "messages are lines of UTF-8 JSON; nothing else is on stdout"},
		{2, "JSON-RPC: response", must, "every request gets exactly one response, with its id as it came"},
		{3, "JSON-RPC: notification", must, "a notification gets no response"},
		{4, "JSON-RPC: error object", must, "what cannot be read or done is an error with the code for it, and the connection lives on"},
		{5, "extensibility", must, "an unknown method that begins with _ is an unknown method, or an ignored notification"},
		{6, "extensibility", must, "no fields of one's own outside _meta"},
		{7, "schema", must, "every message has the shape of its method"},
		{8, "initialization: version negotiation", must, "the answer is the version asked for when it is spoken, else the latest that is"},
		{9, "initialization: capabilities", must, "what is omitted is unsupported, and what is offered works"},
		{10, "initialization: capabilities", must, "only what the client offered is asked of it"},
		{11, "authentication", must, "authenticate takes a method that was advertised, and no other"},
		{12, "session-setup: creating a session", must, "session/new answers with an id of its own"},
		{13, "session-setup: working directory", must, "cwd is absolute, is the session's, and does not depend on where the agent was started"},
		{14, "session-setup: session id", must, "a session that is not known is an error"},
		{15, "session-setup: MCP servers", must, "the stdio servers that the client names are connected"},
		{16, "session-setup: loading sessions", must, "the conversation is replayed as updates, and then the request is answered"},
		{17, "session-setup: loading sessions", must, "the loaded conversation goes on: the model knows what was said"},
		{18, "session-setup: resuming sessions", must, "resume continues without a replay"},
		{19, "session-setup: closing sessions", must, "close ends what runs and frees the session"},
		{20, "session-list", must, "sessions are listed with id and cwd, by directory, in pages with opaque cursors"},
		{21, "session-delete", must, "a deleted session is in no list and cannot be loaded; deleting again is no error"},
		{22, "session-fork (unstable)", must, "a fork is a session of its own that knows what was said; the first one stays as it is"},
		{23, "session-setup: additional directories", must, "additional directories are absolute"},
		{24, "prompt-turn: agent processing", must, "a prompt is answered with a stop reason, once, after all its updates"},
		{25, "prompt-turn: agent reports output", should, "output is reported as it comes"},
		{26, "content: prompt", must, "text and resource links are accepted by every agent, other blocks as advertised"},
		{27, "prompt-turn: stop reasons", must, "the stop reason says why the turn stopped"},
		{28, "tool-calls", must, "a tool call is announced, updated by its id, and ends with completed or failed"},
		{29, "tool-calls: content", should, "what a tool did is shown: its output, while it runs, and its kind"},
		{30, "tool-calls: content", should, "a changed file is shown as a diff with absolute paths"},
		{31, "tool-calls: requesting permission", must, "permission is asked with options, and what was not allowed is not done"},
		{32, "prompt-turn: cancellation", must, "session/cancel stops the turn and its prompt is answered with cancelled, never with an error"},
		{33, "prompt-turn: cancellation", must, "a cancel with nothing to cancel does nothing, also not to what comes next"},
		{34, "cancellation: $/cancel_request", must, "a cancelled request is still answered, with its result or -32800; an unknown one is ignored"},
		{35, "session-modes", must, "the modes that are offered can be set, others are an error"},
		{36, "session-config-options", must, "options have a valid current value; setting one answers with the complete list"},
		{37, "session-modes: config options", should, "a mode and the option of category mode say the same"},
		{38, "slash-commands", should, "text that begins with a slash and is no command is a prompt"},
		{39, "overview: argument requirements", must, "paths are absolute, lines count from 1"},
		{40, "clients", must, "no update of a session before the client knows its id"},
		{41, "clients", must, "nothing of a turn comes after its response"},
		{42, "clients", must, "a frame is at most 10 MiB: more closes the connection of clients in use"},
		{43, "clients", must, "the agent ends with its stdin, and nothing it started is left"},
		{44, "clients", must, "memory is bounded whatever a command prints; nothing is lost silently"},
		{45, "clients", should, "a cancel stops also what a command has started"},
		{46, "clients", should, "sessions work side by side: a slow one does not hold up another"},
		{47, "clients", should, "a session survives the death of its agent"},
		{48, "clients", should, "a permission request shows what is to be done"},
		{49, "clients", must, "a failing model ends the turn, and not the session"},
		{50, "session-archive (unstable)", must, "an archived session is listed where archived ones are asked for, and nowhere else"},
		{51, "session-status (unstable)", must, "the status of a session says whether it is open"},
		{52, "session-options (unstable)", must, "what can be chosen is said before there is a session"},
		{53, "subagents", must, "a sub-agent is announced before anything of it, and has ended when its parent's turn is answered"},
		{54, "prompt-suggestions (unstable)", must, "suggestions are told to clients that offer to show them"},
		{55, "plan operations", must, "plans have ids, by which they are changed and removed"},
		{56, "session-compaction", must, "a compaction has an id, and an end"},
		{57, "notices", must, "a notice has a severity and a title"},
	}
}

func requirement(n int) Requirement {
	for _, r := range Requirements() {
		if r.Number == n {
			return r
		}
	}
	return Requirement{}
}

package mcp

// A Requirement is one sentence of what a developer server has to do.
type Requirement struct {
	Number int
	// Word is from RFC 2119; where the source says none, MUST is meant.
	Word string
	Text string
	// Elsewhere says where it is shown when no run against one server can show it
	// wholly; empty means that checks do.
	Elsewhere string
}

// Requirements is the whole list. Numbers are never reused.
func Requirements() []Requirement {
	const must, should, may = "MUST", "SHOULD", "MAY"
	return []Requirement{
		// Activation.
		{1, must, "the server has a valid builtin identity, developer", ""},
		{2, must, "it can be started by persisted configuration, at session start, and be added and removed at run time", "by configuration and at run time: with the real goose, in conformance/e2e"},
		{3, must, "it is exposed as an MCP server", ""},
		// Transport.
		{4, must, "stdio: one JSON-RPC message a line, nothing else on stdout; any input is survived", ""},
		{5, must, "initialize, for every protocol version from 2024-11-05 to 2025-11-25", ""},
		{6, must, "notifications/initialized", ""},
		{7, must, "capabilities are consistent with behaviour", ""},
		{8, must, "tools/list", ""},
		{9, must, "tools/call", ""},
		{10, must, "prompts/list and prompts/get, if declared", ""},
		{11, should, "the tools are shell, text_editor, analyze, image_processor, list_windows, screen_capture", ""},
		{12, must, "schemas are valid, and stable in a session", ""},
		{13, must, "names are stable though clients prefix them", ""},
		// Metadata.
		{14, must, "agent-working-dir is accepted", ""},
		{15, must, "agent-session-id is accepted", ""},
		{16, must, "unknown metadata is ignored", ""},
		{17, must, "empty and invalid metadata is survived", ""},
		// Shell.
		{18, must, "a command that is not empty is required; an empty one is a parseable invalid-params error", ""},
		{19, must, "path restrictions apply to arguments that resolve to existing paths", ""},
		{20, must, "rejections are explicit and deterministic", ""},
		{21, must, "the working directory comes from metadata", ""},
		{22, must, "commands do not interact", ""},
		{23, must, "the environment is safe for automation: git, editors", ""},
		{24, must, "AGENT_SESSION_ID is the session's id", ""},
		{25, may, "BASH_ENV and a login PATH", "an option of the server: tested beside its code"},
		{26, must, "a subprocess with both streams captured and merged", ""},
		{27, must, "lines go to logging notifications as they come, with output type, stream and text", ""},
		{28, must, "a failure of logging does not break the command", ""},
		{29, must, "a command can be cancelled by its request's id", ""},
		{30, must, "it is signalled at once", ""},
		{31, must, "a cancelled command is an explicit failure", ""},
		{32, must, "Unix: the process group ends, gracefully first, then by force", ""},
		{33, must, "Windows: the process tree ends, with a fallback", ""},
		{34, must, "size limits are deterministic", ""},
		{35, must, "the tail comes with an explicit notice", ""},
		{36, must, "success and failure are encoded consistently", ""},
		// Platforms.
		{37, must, "the protocol, the categories of errors and the shapes are the same everywhere", "the same checks run on Linux, in a container, in a sandbox and on the Windows build: conformance/mcptest"},
		{38, must, "cancellation works everywhere", ""},
		{39, must, "no unsafe traversal of paths", ""},
		{40, must, "the shell on Windows is pwsh, powershell or cmd, in that order", "with a recording stand-in: conformance/mcptest"},
		{41, must, "shells on Windows start without interaction and profile", "with a recording stand-in: conformance/mcptest"},
		{42, must, "no console windows", "tested beside the code of the shell"},
		{43, must, "line endings of the platform are handled", ""},
		{44, may, "in a container behaviour and errors are the same; a missing Docker fails nothing", "conformance/mcptest"},
		// Errors.
		{45, must, "invalid parameters are machine-parseable errors", ""},
		{46, must, "so are refusals of a policy", ""},
		{47, must, "so are failures to spawn", ""},
		{48, must, "so are failures at run time", ""},
		{49, must, "so are cancellations", ""},
		{50, must, "so are exceeded output limits", ""},
		// Security.
		{51, must, "the ignore policy holds for every tool", ""},
		{52, must, "no interactive editor and no prompt of git", ""},
		{53, must, "no terminal", ""},
		{54, must, "traversal and escapes by symbolic links are rejected", ""},
		{55, must, "no secrets in telemetry", ""},
		// Observability.
		{56, must, "structured events for calls and cancels", ""},
		{57, must, "counters and latency of calls and cancels", "the figures: tested beside the code"},
		// Performance.
		{58, must, "low, deterministic overhead", ""},
		{59, must, "no subprocess leaks", ""},
		{60, must, "no tracking state is orphaned", ""},
		{61, must, "memory is bounded under high output", ""},
		// Acceptance scenarios.
		{62, must, "scenario 1: lifecycle", ""},
		{63, must, "scenario 2: a command that works", ""},
		{64, must, "scenario 3: failures of validation", ""},
		{65, must, "scenario 4: cancellation, with no lingering entry", ""},
		{66, must, "scenario 5: output bounds", ""},
		{67, must, "scenario 6: shells of each system", "the choice on Windows: conformance/mcptest"},
		{68, must, "scenario 7: parity in Docker", "conformance/mcptest"},
		// The documented behaviour of the other tools.
		{69, must, "text_editor views, writes, replaces, inserts, undoes and applies diffs as documented", ""},
		{70, must, "analyze shows structure, one file, or one symbol as documented", ""},
		{71, must, "image_processor, list_windows and screen_capture answer as documented", ""},
		{72, must, "the current profile's shell, write, edit, tree, read_image and analyze answer as documented", ""},
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

package gateway

import (
	"regexp"
	"slices"
)

// Protocol names the way in which calls of a model are written.
type Protocol string

// The protocols: OpenAI's chat completions and responses, and Anthropic's Messages.
const (
	OpenAI    Protocol = ""
	Anthropic Protocol = "anthropic"
)

const (
	messagesPath = "/v1/messages"
	countPath    = messagesPath + "/count_tokens"

	versionHeader    = "Anthropic-Version"
	anthropicVersion = "2023-06-01"
)

// passedToAnthropic are further headers that pass to an endpoint of that protocol. They say how
// a body is read; what it wants of the endpoint is judged by the body.
var passedToAnthropic = []string{versionHeader, "Anthropic-Beta"}

// passes reports whether a request's header passes from inside.
func (e *endpoint) passes(header string) bool {
	return slices.Contains(passed, header) || e.Protocol == Anthropic && slices.Contains(passedToAnthropic, header)
}

// plainQuery reports whether the parameters of an address choose no model: Claude Code writes
// one that says what it wants again, by its header.
func (e *endpoint) plainQuery(query string) bool {
	return e.Protocol == Anthropic && query == "beta=true"
}

// anthropicTools matches the types of tools of Anthropic's protocol that the agent runs itself.
// The search of tools is done by the endpoint, and finds only what is in the call.
var anthropicTools = regexp.MustCompile(`^(bash|computer|memory|text_editor|tool_search_tool_(bm25|regex))_[0-9]{8}$`)

// isOwnTool reports whether a tool of a type has the endpoint reach nothing.
func (f *demands) isOwnTool(kind string) bool {
	return slices.Contains(ownTools, kind) || f.protocol == Anthropic && anthropicTools.MatchString(kind)
}

// isTold reports whether what is below a key was done with tools, or said of texts, so that
// keys in it are only names. Anthropic's protocol has a tool's arguments in its input.
func (f *demands) isTold(levels []level, at string) bool {
	ofMessage := len(levels) > 0 && plainKey(levels[0].key) == "messages"
	return slices.Contains(told, at) || f.protocol == Anthropic && ofMessage && (at == "input" || at == "citations")
}

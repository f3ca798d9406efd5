package mcp

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
)

// meta is what a request's _meta says, as far as anything here listens. What is
// unknown, empty or of the wrong type counts as absent.
type meta struct {
	workingDir    string // agent-working-dir, absolute
	sessionID     string // agent-session-id
	toolCallID    string // agent-tool-call-request-id: the model's id of the call
	progressToken json.RawMessage
	version       string // the protocol's, from 2026-07-28 on
	agent         bool   // it has keys that only goose sends
}

func parseMeta(object json.RawMessage) (m meta) {
	var raw struct {
		WorkingDir    json.RawMessage `json:"agent-working-dir"`
		SessionID     json.RawMessage `json:"agent-session-id"`
		ToolCallID    json.RawMessage `json:"agent-tool-call-request-id"`
		ProgressToken json.RawMessage `json:"progressToken"`
		Version       json.RawMessage `json:"io.modelcontextprotocol/protocolVersion"`
	}
	if isNull(object) || json.Unmarshal(object, &raw) != nil {
		return m
	}
	if dir := value(raw.WorkingDir); filepath.IsAbs(dir) {
		m.workingDir = dir
	}
	m.sessionID = value(raw.SessionID)
	m.toolCallID = value(raw.ToolCallID)
	m.version = value(raw.Version)
	m.agent = raw.WorkingDir != nil || raw.SessionID != nil || raw.ToolCallID != nil
	if t := raw.ProgressToken; !isNull(t) && !strings.ContainsRune("{[tf", rune(t[0])) {
		m.progressToken = t
	}
	return m
}

// value is a string that can be a variable's value or a path.
func value(raw json.RawMessage) string {
	s := text(raw)
	if strings.ContainsRune(s, 0) {
		return ""
	}
	return s
}

// versions are the revisions of MCP that are spoken, newest first.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// unsupportedVersion is the revision a request of a newer kind asks for, which
// names it in every request, if that is not spoken here.
func (m meta) unsupportedVersion() string {
	if slices.Contains(versions, m.version) {
		return ""
	}
	return m.version
}

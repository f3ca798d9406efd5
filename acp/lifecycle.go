package acp

import "encoding/json"

// The requests of this file are about sessions that outlive a connection. fork
// and set_title are of the unstable part of v1; the others are stable.

// ListSessionsRequest is session/list. CWD, when not empty, keeps only the
// sessions of exactly that directory. Cursor is the NextCursor of a response.
type ListSessionsRequest struct {
	CWD    string `json:"cwd,omitempty" acp:"strict"`
	Cursor string `json:"cursor,omitempty" acp:"strict"`
	// Archived is ArchivedExclude, which is the default, ArchivedInclude or ArchivedOnly (unstable).
	Archived string          `json:"archived,omitempty" acp:"strict"`
	Meta     json.RawMessage `json:"_meta,omitempty"`
}

// ListSessionsResponse is one page of sessions, newest first. An empty
// NextCursor means that it is the last one.
type ListSessionsResponse struct {
	Sessions   []SessionInfo   `json:"sessions"`
	NextCursor string          `json:"nextCursor,omitempty"`
	Meta       json.RawMessage `json:"_meta,omitempty"`
}

// The values of ListSessionsRequest.Archived.
const (
	ArchivedExclude = "exclude"
	ArchivedInclude = "include"
	ArchivedOnly    = "only"
)

// SessionInfo is a session in a list. UpdatedAt is ISO 8601; Title and UpdatedAt may be empty.
type SessionInfo struct {
	SessionID             SessionID       `json:"sessionId" acp:"required"`
	CWD                   string          `json:"cwd" acp:"required"`
	AdditionalDirectories []string        `json:"additionalDirectories,omitempty"`
	Title                 string          `json:"title,omitempty"`
	UpdatedAt             string          `json:"updatedAt,omitempty"`
	Archived              bool            `json:"archived,omitempty"` // unstable
	Meta                  json.RawMessage `json:"_meta,omitempty"`
}

// ResumeSessionRequest is session/resume: session/load without the replay.
type ResumeSessionRequest struct {
	SessionID             SessionID         `json:"sessionId" acp:"required"`
	CWD                   string            `json:"cwd" acp:"required"`
	MCPServers            []json.RawMessage `json:"mcpServers,omitempty" acp:"strict"`
	AdditionalDirectories []string          `json:"additionalDirectories,omitempty" acp:"strict"`
	Wishes
	Meta json.RawMessage `json:"_meta,omitempty"`
}

// ResumeSessionResponse answers ResumeSessionRequest.
type ResumeSessionResponse struct {
	Modes         *SessionModeState `json:"modes,omitempty"`
	ConfigOptions []ConfigOption    `json:"configOptions,omitempty"`
	Meta          json.RawMessage   `json:"_meta,omitempty"`
}

// DeleteSessionRequest is session/delete.
type DeleteSessionRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// DeleteSessionResponse is empty. Deleting what is not there succeeds.
type DeleteSessionResponse struct{}

// ForkSessionRequest is session/fork: a new session that begins with the
// conversation of another (unstable).
type ForkSessionRequest struct {
	SessionID             SessionID         `json:"sessionId" acp:"required"`
	CWD                   string            `json:"cwd" acp:"required"`
	MCPServers            []json.RawMessage `json:"mcpServers,omitempty" acp:"strict"`
	AdditionalDirectories []string          `json:"additionalDirectories,omitempty" acp:"strict"`
	Wishes
	Meta json.RawMessage `json:"_meta,omitempty"`
}

// ForkSessionResponse answers ForkSessionRequest with the id of the new session.
type ForkSessionResponse struct {
	SessionID     SessionID         `json:"sessionId" acp:"required"`
	Modes         *SessionModeState `json:"modes,omitempty"`
	ConfigOptions []ConfigOption    `json:"configOptions,omitempty"`
	Meta          json.RawMessage   `json:"_meta,omitempty"`
}

// SetSessionTitleRequest is session/set_title (unstable).
type SetSessionTitleRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	Title     string          `json:"title" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// SetSessionTitleResponse carries the title as it was stored.
type SetSessionTitleResponse struct {
	Title string          `json:"title"`
	Meta  json.RawMessage `json:"_meta,omitempty"`
}

// ArchiveSessionRequest is session/archive, and session/unarchive: whether a session is in lists
// that do not ask for archived ones (unstable). An open session is closed before it is archived.
type ArchiveSessionRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// ArchiveSessionResponse is empty.
type ArchiveSessionResponse struct{}

// SessionStatusRequest is session/status (unstable).
type SessionStatusRequest struct {
	SessionID SessionID       `json:"sessionId" acp:"required"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// SessionStatusResponse says whether a session is SessionOpen or SessionSaved.
type SessionStatusResponse struct {
	Status string `json:"status" acp:"required"`
}

// The values of SessionStatusResponse.Status.
const (
	SessionOpen  = "open"
	SessionSaved = "saved"
)

// SessionOptionsRequest is session/options: the options that a session would begin with, a new
// one or, with SessionID, that one (unstable). It opens nothing.
type SessionOptionsRequest struct {
	CWD                   string          `json:"cwd" acp:"required"`
	AdditionalDirectories []string        `json:"additionalDirectories,omitempty" acp:"strict"`
	SessionID             SessionID       `json:"sessionId,omitempty" acp:"strict"`
	Meta                  json.RawMessage `json:"_meta,omitempty"`
}

// SessionOptionsResponse answers SessionOptionsRequest.
type SessionOptionsResponse struct {
	Modes         *SessionModeState `json:"modes,omitempty"`
	ConfigOptions []ConfigOption    `json:"configOptions,omitempty"`
	Meta          json.RawMessage   `json:"_meta,omitempty"`
}

// AuthStatusRequest is auth/status (unstable).
type AuthStatusRequest struct {
	Meta json.RawMessage `json:"_meta,omitempty"`
}

// AuthStatusResponse says whether sessions can be started: State is one of the constants.
type AuthStatusResponse struct {
	State string          `json:"state" acp:"required"`
	Meta  json.RawMessage `json:"_meta,omitempty"`
}

// The values of AuthStatusResponse.State.
const (
	AuthStateAuthenticated   = "authenticated"
	AuthStateUnauthenticated = "unauthenticated"
	AuthStateUnknown         = "unknown"
)

// LogoutRequest is logout.
type LogoutRequest struct {
	Meta json.RawMessage `json:"_meta,omitempty"`
}

// LogoutResponse is empty.
type LogoutResponse struct{}

// Usage is what a turn cost in tokens: the unstable usage of a PromptResponse.
type Usage struct {
	TotalTokens       uint64  `json:"totalTokens" acp:"required"`
	InputTokens       uint64  `json:"inputTokens" acp:"required"`
	OutputTokens      uint64  `json:"outputTokens" acp:"required"`
	ThoughtTokens     *uint64 `json:"thoughtTokens,omitempty"`
	CachedReadTokens  *uint64 `json:"cachedReadTokens,omitempty"`
	CachedWriteTokens *uint64 `json:"cachedWriteTokens,omitempty"`
}

// Cost is what a session has cost since it began: the cost of a usage_update.
type Cost struct {
	Amount float64 `json:"amount" acp:"required"`
	// Currency is a code of ISO 4217, like USD.
	Currency string `json:"currency" acp:"required"`
}

// ParseUsage reads a raw usage. It is false for one that a strict client would
// refuse: agents leave numbers out, or send null.
func ParseUsage(raw json.RawMessage) (u Usage, ok bool) {
	if !json.Valid(raw) {
		return Usage{}, false
	}
	err := decode(raw, &u)
	return u, err == nil
}

// CreateElicitationRequest is elicitation/create: a question to the person that
// is no permission. Mode is "form", with RequestedSchema, or "url", with
// ElicitationID and URL. It is about a session, or about the request RequestID.
type CreateElicitationRequest struct {
	Mode            string          `json:"mode" acp:"required"`
	Message         string          `json:"message" acp:"required"`
	RequestedSchema json.RawMessage `json:"requestedSchema,omitempty"`
	ElicitationID   string          `json:"elicitationId,omitempty"`
	URL             string          `json:"url,omitempty"`
	SessionID       SessionID       `json:"sessionId,omitempty"`
	ToolCallID      string          `json:"toolCallId,omitempty"`
	RequestID       json.RawMessage `json:"requestId,omitempty"`
	Meta            json.RawMessage `json:"_meta,omitempty"`
}

// CreateElicitationResponse carries the answer: Action is accept (with Content
// in the mode form), decline or cancel.
type CreateElicitationResponse struct {
	Action  string          `json:"action" acp:"required"`
	Content json.RawMessage `json:"content,omitempty"`
	Meta    json.RawMessage `json:"_meta,omitempty"`
}

// Offers reports whether the client answers elicitations of a mode.
func (e ElicitationCapabilities) Offers(mode string) bool {
	return mode == "form" && e.Form != nil || mode == "url" && e.URL != nil
}

package acp

import (
	"context"
	"encoding/json"
)

// An Agent answers what an ACP client asks. Methods may be called concurrently;
// for one session the connection starts them in arrival order: the next request
// of a session starts when the one before it has returned or called Release.
//
// A returned *Error goes on the wire as it is; context.Canceled becomes -32800,
// any other error -32603.
type Agent interface {
	Initialize(context.Context, *InitializeRequest) (*InitializeResponse, error)
	// NewSession opens a session. Clients do not know its id before the response,
	// so updates for it are sent with AfterReply.
	NewSession(context.Context, *NewSessionRequest) (*NewSessionResponse, error)
	// Prompt runs one turn. It must call Release as soon as its place in the
	// session's queue is taken. Its context ends when the client sends
	// $/cancel_request for it or goes away; session/cancel arrives as Cancel.
	Prompt(context.Context, *PromptRequest) (*PromptResponse, error)
	// Cancel is session/cancel: the session's turns end as cancelled. It is
	// called on the reading goroutine, in wire order, and must not block. A
	// prompt that was sent before the cancel but had not called Release yet may
	// be unknown to the agent at that moment, so Cancel is called once more from
	// within that Release; prompts that had not even started are answered by the
	// connection.
	Cancel(context.Context, *CancelNotification)
}

// The optional abilities of an Agent, found by type assertion; what is absent
// is answered with method not found (-32601).
type (
	// Authenticator answers authenticate.
	Authenticator interface {
		Authenticate(context.Context, *AuthenticateRequest) (*AuthenticateResponse, error)
	}
	// SessionLoader answers session/load.
	SessionLoader interface {
		LoadSession(context.Context, *LoadSessionRequest) (*LoadSessionResponse, error)
	}
	// SessionLister answers session/list.
	SessionLister interface {
		ListSessions(context.Context, *ListSessionsRequest) (*ListSessionsResponse, error)
	}
	// SessionResumer answers session/resume.
	SessionResumer interface {
		ResumeSession(context.Context, *ResumeSessionRequest) (*ResumeSessionResponse, error)
	}
	// SessionDeleter answers session/delete.
	SessionDeleter interface {
		DeleteSession(context.Context, *DeleteSessionRequest) (*DeleteSessionResponse, error)
	}
	// SessionForker answers session/fork. As with NewSession, updates for the new
	// session are sent with AfterReply.
	SessionForker interface {
		ForkSession(context.Context, *ForkSessionRequest) (*ForkSessionResponse, error)
	}
	// TitleSetter answers session/set_title.
	TitleSetter interface {
		SetSessionTitle(context.Context, *SetSessionTitleRequest) (*SetSessionTitleResponse, error)
	}
	// SessionArchiver answers session/archive and session/unarchive.
	SessionArchiver interface {
		ArchiveSession(context.Context, *ArchiveSessionRequest) (*ArchiveSessionResponse, error)
		UnarchiveSession(context.Context, *ArchiveSessionRequest) (*ArchiveSessionResponse, error)
	}
	// SessionTeller answers session/status and session/options.
	SessionTeller interface {
		SessionStatus(context.Context, *SessionStatusRequest) (*SessionStatusResponse, error)
		SessionOptions(context.Context, *SessionOptionsRequest) (*SessionOptionsResponse, error)
	}
	// AuthTeller answers auth/status.
	AuthTeller interface {
		AuthStatus(context.Context, *AuthStatusRequest) (*AuthStatusResponse, error)
	}
	// Logouter answers logout.
	Logouter interface {
		Logout(context.Context, *LogoutRequest) (*LogoutResponse, error)
	}
	// SessionCloser answers session/close.
	SessionCloser interface {
		CloseSession(context.Context, *CloseSessionRequest) (*CloseSessionResponse, error)
	}
	// ModeSetter answers session/set_mode.
	ModeSetter interface {
		SetSessionMode(context.Context, *SetSessionModeRequest) (*SetSessionModeResponse, error)
	}
	// ModelSetter answers session/set_model, which older JetBrains IDEs call.
	ModelSetter interface {
		SetSessionModel(context.Context, *SetSessionModelRequest) (*SetSessionModelResponse, error)
	}
	// ConfigOptionSetter answers session/set_config_option.
	ConfigOptionSetter interface {
		SetConfigOption(context.Context, *SetConfigOptionRequest) (*SetConfigOptionResponse, error)
	}
)

// A Client answers what an ACP agent asks.
type Client interface {
	// SessionUpdate takes session/update notifications, one at a time and in
	// wire order; a response that follows them on the wire is delivered after
	// they were taken. Blocking it holds back the agent.
	SessionUpdate(context.Context, *SessionNotification) error
	// RequestPermission is called on a goroutine of its own; its context ends
	// with $/cancel_request and with the connection.
	RequestPermission(context.Context, *RequestPermissionRequest) (*RequestPermissionResponse, error)
}

// A RequestHandler is an optional ability of a Client: it answers requests of
// the agent that have no method of their own here (fs/*, terminal/*,
// elicitation/create, extensions). Returning ErrMethodNotFound declines.
type RequestHandler interface {
	HandleRequest(ctx context.Context, method string, params json.RawMessage) (any, error)
}

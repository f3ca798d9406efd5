package acp

// The methods of ACP v1 that this package gives a meaning to.
const (
	MethodInitialize        = "initialize"
	MethodAuthenticate      = "authenticate"
	MethodNewSession        = "session/new"
	MethodLogout            = "logout"
	MethodListSessions      = "session/list"
	MethodLoadSession       = "session/load"
	MethodResumeSession     = "session/resume"
	MethodDeleteSession     = "session/delete"
	MethodForkSession       = "session/fork"      // unstable
	MethodSetSessionTitle   = "session/set_title" // unstable
	MethodArchiveSession    = "session/archive"   // unstable, as the next four
	MethodUnarchiveSession  = "session/unarchive"
	MethodSessionStatus     = "session/status"
	MethodSessionOptions    = "session/options"
	MethodAuthStatus        = "auth/status"
	MethodCloseSession      = "session/close"
	MethodPrompt            = "session/prompt"
	MethodCancel            = "session/cancel"
	MethodSetSessionMode    = "session/set_mode"
	MethodSetSessionModel   = "session/set_model" // before config options; no part of v1 any more
	MethodSetConfigOption   = "session/set_config_option"
	MethodSessionUpdate     = "session/update"
	MethodRequestPermission = "session/request_permission"
	MethodCreateElicitation = "elicitation/create"
	MethodCancelRequest     = "$/cancel_request"
)

package acptest

import (
	"context"

	"gander.dev/gander/acp"
)

var (
	_ acp.SessionLister  = (*Agent)(nil)
	_ acp.SessionResumer = (*Agent)(nil)
	_ acp.SessionDeleter = (*Agent)(nil)
	_ acp.SessionForker  = (*Agent)(nil)
	_ acp.TitleSetter    = (*Agent)(nil)
	_ acp.Logouter       = (*Agent)(nil)
)

// ListSessions implements acp.SessionLister: one session per page, the cursor "2" is the last.
func (a *Agent) ListSessions(_ context.Context, req *acp.ListSessionsRequest) (*acp.ListSessionsResponse, error) {
	a.note(acp.MethodListSessions)
	switch req.Cursor {
	case "":
		return &acp.ListSessionsResponse{Sessions: []acp.SessionInfo{{SessionID: "s1", CWD: "/", Title: "first", UpdatedAt: "2026-01-02T03:04:05Z"}}, NextCursor: "2"}, nil
	case "2":
		return &acp.ListSessionsResponse{Sessions: []acp.SessionInfo{}}, nil
	}
	return nil, acp.InvalidParams("unknown cursor", nil)
}

// ResumeSession implements acp.SessionResumer.
func (a *Agent) ResumeSession(_ context.Context, req *acp.ResumeSessionRequest) (*acp.ResumeSessionResponse, error) {
	a.note(acp.MethodResumeSession)
	if req.SessionID != "s1" {
		return nil, acp.SessionNotFound(req.SessionID)
	}
	return &acp.ResumeSessionResponse{}, nil
}

// DeleteSession implements acp.SessionDeleter.
func (a *Agent) DeleteSession(context.Context, *acp.DeleteSessionRequest) (*acp.DeleteSessionResponse, error) {
	a.note(acp.MethodDeleteSession)
	return nil, nil
}

// ForkSession implements acp.SessionForker: the new id is the old one with "-fork".
func (a *Agent) ForkSession(_ context.Context, req *acp.ForkSessionRequest) (*acp.ForkSessionResponse, error) {
	a.note(acp.MethodForkSession)
	return &acp.ForkSessionResponse{SessionID: req.SessionID + "-fork"}, nil
}

// SetSessionTitle implements acp.TitleSetter.
func (a *Agent) SetSessionTitle(_ context.Context, req *acp.SetSessionTitleRequest) (*acp.SetSessionTitleResponse, error) {
	a.note(acp.MethodSetSessionTitle)
	return &acp.SetSessionTitleResponse{Title: req.Title}, nil
}

// Logout implements acp.Logouter.
func (a *Agent) Logout(context.Context, *acp.LogoutRequest) (*acp.LogoutResponse, error) {
	a.note(acp.MethodLogout)
	return nil, nil
}

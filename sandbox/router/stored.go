package router

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// pageSize is how many sessions session/list returns at a time unless it is asked for others.
const pageSize = 100

// ListSessions implements acp.SessionLister: what happened last comes first.
func (r *Router) ListSessions(ctx context.Context, req *acp.ListSessionsRequest) (*acp.ListSessionsResponse, error) {
	if req.CWD != "" && !filepath.IsAbs(req.CWD) {
		return nil, acp.InvalidParams(fmt.Sprintf("cwd must be an absolute path, got %q", req.CWD), nil)
	}
	m := aliases(req.Meta)
	o := sessions.ListOptions{CWD: req.CWD, Agent: m.agent, Parent: r.opts.Parent, Cursor: req.Cursor, Limit: cmp.Or(m.limit, pageSize)}
	switch only := req.Archived == acp.ArchivedOnly; req.Archived {
	case "", acp.ArchivedExclude, acp.ArchivedOnly:
		o.Archived = &only
	case acp.ArchivedInclude:
	default:
		return nil, acp.InvalidParams(fmt.Sprintf("archived: %q is not one of exclude, include, only", req.Archived), nil)
	}
	page, err := r.opts.Store.List(ctx, o)
	if errors.Is(err, sessions.ErrCursor) {
		return nil, acp.InvalidParams("cursor is not one of this list; leave it out to begin again", map[string]any{"cursor": req.Cursor})
	}
	if err != nil {
		return nil, err
	}
	out := &acp.ListSessionsResponse{Sessions: make([]acp.SessionInfo, len(page.Sessions)), NextCursor: page.Next}
	for i := range page.Sessions {
		out.Sessions[i] = listed(&page.Sessions[i])
	}
	return out, nil
}

func listed(i *sessions.Info) acp.SessionInfo {
	return acp.SessionInfo{
		SessionID: i.ID, CWD: i.WorkingPath, AdditionalDirectories: i.AdditionalDirectories, Title: i.ShownTitle(),
		UpdatedAt: i.UpdatedAt.UTC().Format("2006-01-02T15:04:05.000Z"), Archived: i.Archived,
		Meta: marshal(map[string]any{metaKey: listedMeta(i)}),
	}
}

func listedMeta(i *sessions.Info) map[string]any {
	m := map[string]any{"agent": i.Agent, "sessionKey": i.Key, "turns": i.Turns}
	if i.Origin == sessions.OriginLoop { // loading it attaches to a loop
		m["origin"] = i.Origin
	}
	if i.Parent != "" {
		m["stopReason"] = i.StopReason
	}
	return m
}

// LoadSession implements acp.SessionLoader: the thread is replayed, then answered.
// The agent starts with the next prompt.
func (r *Router) LoadSession(ctx context.Context, req *acp.LoadSessionRequest) (*acp.LoadSessionResponse, error) {
	wish, err := wished(req.Wishes)
	if err != nil {
		return nil, err
	}
	q := stored{req.SessionID, req.CWD, req.AdditionalDirectories, aliases(req.Meta)}
	if a, err := r.attach(ctx, q, true); a != nil || err != nil {
		return &acp.LoadSessionResponse{}, err
	}
	s, err := r.reopen(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := s.replay(ctx); err != nil {
		r.drop(s)
		return nil, err
	}
	if err := r.furnish(ctx, s, req.MCPServers, wish); err != nil {
		return nil, err
	}
	acp.AfterReply(ctx, s.announce)
	state := s.firstState()
	return &acp.LoadSessionResponse{Modes: state.modes, ConfigOptions: state.options, Meta: s.meta()}, nil
}

// ResumeSession implements acp.SessionResumer: it loads without the replay.
func (r *Router) ResumeSession(ctx context.Context, req *acp.ResumeSessionRequest) (*acp.ResumeSessionResponse, error) {
	wish, err := wished(req.Wishes)
	if err != nil {
		return nil, err
	}
	q := stored{req.SessionID, req.CWD, req.AdditionalDirectories, aliases(req.Meta)}
	if a, err := r.attach(ctx, q, false); a != nil || err != nil {
		return &acp.ResumeSessionResponse{}, err
	}
	s, err := r.reopen(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := r.furnish(ctx, s, req.MCPServers, wish); err != nil {
		return nil, err
	}
	acp.AfterReply(ctx, s.announce)
	state := s.firstState()
	return &acp.ResumeSessionResponse{Modes: state.modes, ConfigOptions: state.options, Meta: s.meta()}, nil
}

// ForkSession implements acp.SessionForker: a new session with the same
// conversation, which its agent is given as text.
func (r *Router) ForkSession(ctx context.Context, req *acp.ForkSessionRequest) (*acp.ForkSessionResponse, error) {
	cwd, err := directory("cwd", req.CWD)
	if err != nil {
		return nil, err
	}
	wish, err := wished(req.Wishes)
	if err != nil {
		return nil, err
	}
	if open, err := r.session(req.SessionID); err == nil { // what it said last is part of it
		if err := open.transcript.Sync(ctx); err != nil {
			return nil, err
		}
	}
	id := acp.SessionID(sessions.NewID())
	h := sessions.Header{SessionID: id, SessionKey: r.sessionKey(id), WorkspacePath: cwd, WorkingPath: cwd, AdditionalDirectories: req.AdditionalDirectories}
	if _, err := r.opts.Store.Fork(ctx, req.SessionID, h); err != nil {
		return nil, notFound(req.SessionID, err)
	}
	s, err := r.reopen(ctx, stored{id, cwd, req.AdditionalDirectories, aliases(req.Meta)})
	if err == nil {
		err = r.furnish(ctx, s, req.MCPServers, wish)
	}
	if err != nil { // nobody knows of the copy, be it that the client is gone
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), settingTime)
		defer done()
		return nil, errors.Join(err, r.kept().Erase(ctx, id))
	}
	acp.AfterReply(ctx, s.announce)
	state := s.firstState()
	return &acp.ForkSessionResponse{SessionID: id, Modes: state.modes, ConfigOptions: state.options, Meta: s.meta()}, nil
}

// CloseSession implements acp.SessionCloser. The session stays in the store.
func (r *Router) CloseSession(_ context.Context, req *acp.CloseSessionRequest) (*acp.CloseSessionResponse, error) {
	if a := r.detach(req.SessionID); a != nil {
		a.close()
		return &acp.CloseSessionResponse{}, nil
	}
	s := r.take(req.SessionID)
	if s == nil {
		return nil, acp.SessionNotFound(req.SessionID)
	}
	s.close()
	return &acp.CloseSessionResponse{}, nil
}

// DeleteSession implements acp.SessionDeleter. What is not there is deleted already;
// the session of a loop that runs is not deleted.
func (r *Router) DeleteSession(ctx context.Context, req *acp.DeleteSessionRequest) (*acp.DeleteSessionResponse, error) {
	if info, err := r.opts.Store.Info(ctx, req.SessionID); err == nil {
		if err := Deletable(ctx, r.opts.Loops, &info); err != nil {
			return nil, acp.InvalidRequest(err.Error())
		}
	}
	if a := r.detach(req.SessionID); a != nil {
		a.close()
	}
	if s := r.take(req.SessionID); s != nil {
		s.close()
	}
	if sessions.CheckID(req.SessionID) != nil {
		return &acp.DeleteSessionResponse{}, nil
	}
	if err := r.kept().Erase(ctx, req.SessionID); err != nil {
		return nil, err
	}
	return &acp.DeleteSessionResponse{}, nil
}

// SetSessionTitle implements acp.TitleSetter. The session need not be open.
func (r *Router) SetSessionTitle(ctx context.Context, req *acp.SetSessionTitleRequest) (*acp.SetSessionTitleResponse, error) {
	info, err := r.opts.Store.Info(ctx, req.SessionID)
	if err != nil {
		return nil, notFound(req.SessionID, err)
	}
	title := strings.TrimPrefix(req.Title, info.Mark()) // the person has edited what is shown
	info.Title, err = r.opts.Store.SetTitle(ctx, req.SessionID, title, sessions.TitleByPerson)
	if err != nil {
		return nil, acp.InvalidParams(err.Error(), nil)
	}
	if s, err := r.session(req.SessionID); err == nil {
		acp.AfterReply(ctx, func() { s.titled(context.WithoutCancel(ctx)) })
	}
	return &acp.SetSessionTitleResponse{Title: info.ShownTitle()}, nil
}

// notFound is an error of the store on the wire.
func notFound(id acp.SessionID, err error) error {
	if errors.Is(err, sessions.ErrNotFound) {
		return acp.SessionNotFound(id)
	}
	return err
}

// stored says which session is to be opened again.
type stored struct {
	id   acp.SessionID
	cwd  string
	dirs []string
	meta aliased
}

// reopen opens a session of the store. One that is open here already is closed
// first: the client says anew what it is to have.
func (r *Router) reopen(ctx context.Context, q stored) (*session, error) {
	info, err := r.opts.Store.Info(ctx, q.id)
	if err != nil {
		return nil, notFound(q.id, err)
	}
	if err := r.suits(ctx, &info, q); err != nil {
		return nil, err
	}
	dirs, err := r.additional(q.dirs)
	if err != nil {
		return nil, err
	}
	set, absent, err := r.storedSetting(ctx, &info, q.meta.agent)
	if err != nil {
		return nil, err
	}
	if err := r.leaveOpen(q.id); err != nil {
		return nil, err
	}
	release, err := r.opts.Store.Claim(q.id)
	if err != nil {
		return nil, notFound(q.id, err)
	}
	info, err = r.opts.Store.Info(ctx, q.id) // as whoever had it left it
	var transcript *sessions.Transcript
	if err == nil {
		transcript, _, err = r.opts.Store.Resume(ctx, q.id)
	}
	if err != nil {
		release()
		return nil, notFound(q.id, err)
	}
	s := newSession(r, q.id, filepath.Clean(q.cwd), dirs, set, transcript)
	s.claim, s.unkept = release, info.Temporary
	s.recall(&info)
	s.compareFiles(r.opts.Changes)
	if !r.add(s) {
		s.close()
		return nil, acp.Internal("gander is shutting down", nil)
	}
	if absent != nil {
		s.notice("warning", absent.Error())
	}
	return s, nil
}

// leaveOpen closes a session that is open on this connection, unless it is at work.
func (r *Router) leaveOpen(id acp.SessionID) error {
	s, err := r.session(id)
	if err != nil {
		return nil // it is not open
	}
	if s.busy() {
		return acp.InvalidRequest(fmt.Sprintf("session %s is at work; cancel its turn or wait for it, then load the session", id))
	}
	r.drop(s)
	return nil
}

// busy reports whether a turn runs or waits.
func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.queue, func(t *turn) bool {
		select {
		case <-t.finished: // its response is on the way
			return false
		default:
			return true
		}
	})
}

// suits checks what a client says of a session against what it is.
func (r *Router) suits(ctx context.Context, info *sessions.Info, q stored) error {
	if _, err := directory("cwd", q.cwd); err != nil {
		if _, gone := os.Stat(q.cwd); filepath.IsAbs(q.cwd) && errors.Is(gone, os.ErrNotExist) {
			return acp.InvalidParams(fmt.Sprintf("the project %s of session %s is not there any more; to go on with the conversation where the project is now, fork the session into that directory (session/fork)", q.cwd, q.id), map[string]any{"sessionId": q.id, "cwd": q.cwd})
		}
		return err
	}
	if err := info.CheckDir(q.cwd); err != nil {
		return acp.InvalidParams(err.Error()+"; session/fork goes on with its conversation in another directory", map[string]any{"sessionId": q.id, "cwd": info.WorkingPath})
	}
	if q.meta.session == "" {
		return nil
	}
	meant, err := r.opts.Store.Resolve(ctx, q.meta.session, info.Agent)
	if err == nil && meant.ID == info.ID {
		return nil
	}
	return acp.InvalidParams(fmt.Sprintf("session %s does not have the key %q", q.id, q.meta.session), map[string]any{"sessionId": q.id, "sessionKey": info.Key})
}

// storedSetting is what a session ran with last, or what the client asks for. An
// agent that is not usable now keeps nobody from reading the thread: absent says
// what the next prompt will fail with.
func (r *Router) storedSetting(ctx context.Context, info *sessions.Info, wanted string) (set setting, absent, err error) {
	choice, err := r.choose(info.WorkingPath)
	if err != nil {
		return set, nil, acp.Internal(err.Error(), nil)
	}
	if set.agent, err = r.agent(cmp.Or(wanted, info.Agent)); err != nil && wanted == "" {
		absent = fmt.Errorf("the agent %s of this session is not configured any more; %s goes on with it", info.Agent, choice.Agent)
		set.agent, err = r.agent(choice.Agent)
	}
	if err != nil {
		return set, nil, err
	}
	if err := set.agent.Check(ctx); err != nil {
		absent = err
	}
	if set.driver, err = r.driver(ctx, cmp.Or(info.Options[optionSandbox], choice.Sandbox)); err != nil {
		return set, nil, acp.Internal(err.Error(), nil)
	}
	set.tools = cmp.Or(info.Options[optionTools], r.opts.Tools, ToolsNative)
	set.access = cmp.Or(info.Options[optionAccess], AccessWrite)
	return set, absent, nil
}

// recall takes over what the store knows of the conversation.
func (s *session) recall(info *sessions.Info) {
	s.title, s.weaker, s.last = info.Title, info.Weaker, info.LastTurn
	for name, id := range info.AgentSessions {
		if turn := info.AgentTurns[name]; turn != "" || s.r.isHosted(name) { // whose work with others hangs on its id
			s.seen[name] = memory{session: id, turn: turn}
		}
	}
	if v := info.Options[optionPermissions]; slices.Contains([]string{PermissionsAsk, PermissionsReads, PermissionsAll}, v) {
		s.permissions = v
	}
	if info.Options[optionPorts] == PortsListening {
		s.portsOpen = PortsListening
	}
	if s.agent.Name() != info.Agent {
		return // it has choices of its own
	}
	for _, category := range choices(info.Options).order() {
		if value := info.Options[category]; value != "" {
			s.want[category] = value
		}
	}
}

// drop closes a session and forgets it.
func (r *Router) drop(s *session) {
	r.take(s.id)
	s.close()
}

// take removes a session from the open ones; nil when it is not among them.
func (r *Router) take(id acp.SessionID) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[id]
	delete(r.sessions, id)
	return s
}

// sessionKey is the key of a new session that the client gave none.
func (r *Router) sessionKey(id acp.SessionID) string {
	return fmt.Sprintf("%s:%s:main", cmp.Or(r.opts.SessionPrefix, "acp"), id)
}

// asAliased does what a prompt's _meta asks for: another agent, which stays. It begins
// with the prompts that come behind.
func (s *session) asAliased(ctx context.Context, m aliased) error {
	if m.off && !s.unkept {
		return acp.InvalidParams(fmt.Sprintf("session %s is kept, each of its prompts too; for one that is not, say disableSession in the _meta of session/new", s.id), nil)
	}
	if m.agent != "" {
		if err := s.replace(ctx, replacement{agent: m.agent}); err != nil {
			return err
		}
	}
	if m.session != "" && m.session != string(s.id) {
		meant, err := s.r.opts.Store.Resolve(ctx, m.session, "")
		if err != nil || meant.ID != s.id {
			return acp.InvalidParams(fmt.Sprintf("the prompt is for session %s, which does not have the key %q; load the one that has", s.id, m.session), nil)
		}
	}
	return nil
}

// titled tells the client what the session is called, when that is news.
func (s *session) titled(ctx context.Context) {
	info, err := s.r.opts.Store.Info(ctx, s.id)
	s.mu.Lock()
	if err != nil { // a store that keeps nothing
		info.Agent, info.WorkingPath = s.agent.Name(), s.cwd
	}
	info.Weaker = s.weaker // is written at some time
	title := info.ShownTitle()
	news := title != s.title && title != ""
	s.title = title
	s.mu.Unlock()
	if news {
		s.send(s.now, acp.SessionInfoUpdate(title, info.UpdatedAt.UTC()))
	}
}

// nowWeaker notes what the sandbox lacks in which the agent was started; it reports
// whether the title says something else now.
func (s *session) nowWeaker(by []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := slices.Equal(s.weaker, by)
	s.weaker = by
	return !same
}

// called is an agent's session_info_update as the client gets it: the title says what
// the sandbox lacks. It is recorded without.
func (s *session) called(update json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(update, &fields) != nil || fields["title"] == nil {
		return update
	}
	s.mu.Lock()
	info := sessions.Info{Agent: s.agent.Name(), WorkingPath: s.cwd, Weaker: s.weaker}
	s.mu.Unlock()
	if len(info.Weaker) == 0 {
		return update
	}
	_ = json.Unmarshal(fields["title"], &info.Title) // null takes the title away
	return acp.WithFields(update, map[string]any{"title": info.ShownTitle()})
}

package router

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// wishes hold the requests of a client for a session that it opens, as far as it can have them.
type wishes struct {
	system  string // instructions for agents
	options []initialOption
}

type initialOption struct{ id, value string }

// maxSystem bounds the instructions of a client, in bytes.
const maxSystem = 1 << 20

// wished reads what a client asks for. Nothing is opened where it cannot be had.
func wished(w acp.Wishes) (out wishes, err error) {
	if p := w.SystemPrompt; p != nil {
		if p.Mode != acp.PromptAppend {
			return out, acp.InvalidParams(fmt.Sprintf("systemPrompt.mode: %q is not offered; append is", p.Mode), nil)
		}
		var texts []string
		for i, raw := range p.Content {
			c := acp.ParseContentBlock(raw)
			if c.Type != "text" {
				return out, acp.InvalidParams(fmt.Sprintf("systemPrompt.content[%d] is %q; only text is taken", i, c.Type), nil)
			}
			texts = append(texts, c.Text)
		}
		if out.system = strings.Join(texts, "\n\n"); strings.TrimSpace(out.system) == "" || len(out.system) > maxSystem {
			return out, acp.InvalidParams(fmt.Sprintf("systemPrompt.content has %d bytes of text; 1 to %d are taken", len(out.system), maxSystem), nil)
		}
	}
	for _, o := range w.ConfigOptions {
		value, ok := optionValue(o.Value)
		if !ok {
			return out, acp.InvalidParams(fmt.Sprintf("configOptions: the value of %q must be a string", o.ConfigID), nil)
		}
		out.options = append(out.options, initialOption{o.ConfigID, value})
	}
	// Options depend on the agent, and on others that are chosen before them.
	slices.SortStableFunc(out.options, func(a, b initialOption) int { return cmp.Compare(rank(a.id), rank(b.id)) })
	return out, nil
}

func rank(option string) int {
	switch option {
	case optionAgent:
		return 0
	case optionSandbox, optionTools, optionAccess:
		return 1
	case optionModel:
		return 2
	}
	return 3
}

// furnish gives a session what its client asks for, before its agent starts. A session that
// cannot have it is closed.
func (r *Router) furnish(ctx context.Context, s *session, servers []json.RawMessage, wish wishes) error {
	s.system = wish.system
	s.takeServers(servers)
	for _, o := range wish.options {
		if err := s.setOption(ctx, o.id, o.value); err != nil {
			r.drop(s)
			return err
		}
	}
	return nil
}

// SessionOptions implements acp.SessionTeller. It answers from what is configured and from what
// agents have said before: no sandbox is made, and nothing is kept.
func (r *Router) SessionOptions(ctx context.Context, req *acp.SessionOptionsRequest) (*acp.SessionOptionsResponse, error) {
	if s, err := r.session(req.SessionID); err == nil {
		return optionsOf(s), nil
	}
	cwd, err := directory("cwd", req.CWD)
	if err != nil {
		return nil, err
	}
	info := sessions.Info{WorkingPath: cwd}
	if req.SessionID != "" {
		if info, err = r.opts.Store.Info(ctx, req.SessionID); err != nil {
			return nil, notFound(req.SessionID, err)
		}
		if err := r.suits(ctx, &info, stored{id: req.SessionID, cwd: req.CWD}); err != nil {
			return nil, err
		}
	}
	choice, err := r.choose(cwd)
	if err != nil {
		return nil, acp.Internal(err.Error(), nil)
	}
	info.Agent = cmp.Or(info.Agent, choice.Agent)
	set, _, err := r.storedSetting(ctx, &info, "")
	if err != nil {
		return nil, err
	}
	s := newSession(r, req.SessionID, filepath.Clean(cwd), nil, set, nil)
	defer s.stop()
	if choice.Model != "" && set.agent.Name() == choice.Agent {
		s.want[acp.CategoryModel] = choice.Model
	}
	s.permissions = cmp.Or(choice.Approve, s.permissions)
	s.recall(&info)
	return optionsOf(s), nil
}

func optionsOf(s *session) *acp.SessionOptionsResponse {
	state := s.current()
	return &acp.SessionOptionsResponse{Modes: state.modes, ConfigOptions: state.options}
}

// SessionStatus implements acp.SessionTeller.
func (r *Router) SessionStatus(ctx context.Context, req *acp.SessionStatusRequest) (*acp.SessionStatusResponse, error) {
	if _, err := r.opts.Store.Info(ctx, req.SessionID); err != nil {
		return nil, notFound(req.SessionID, err)
	}
	if r.opts.Store.InUse(req.SessionID) {
		return &acp.SessionStatusResponse{Status: acp.SessionOpen}, nil
	}
	return &acp.SessionStatusResponse{Status: acp.SessionSaved}, nil
}

// ArchiveSession implements acp.SessionArchiver. The session is closed where this client has it
// open; that of another one stays as it is.
func (r *Router) ArchiveSession(ctx context.Context, req *acp.ArchiveSessionRequest) (*acp.ArchiveSessionResponse, error) {
	if a := r.detach(req.SessionID); a != nil {
		a.close()
	}
	if s := r.take(req.SessionID); s != nil {
		s.close()
	}
	return r.archive(ctx, req.SessionID, true)
}

// UnarchiveSession implements acp.SessionArchiver.
func (r *Router) UnarchiveSession(ctx context.Context, req *acp.ArchiveSessionRequest) (*acp.ArchiveSessionResponse, error) {
	return r.archive(ctx, req.SessionID, false)
}

func (r *Router) archive(ctx context.Context, id acp.SessionID, archived bool) (*acp.ArchiveSessionResponse, error) {
	info, err := r.opts.Store.Info(ctx, id)
	if err == nil && info.Archived != archived {
		err = r.opts.Store.SetArchived(ctx, id, archived)
	}
	switch {
	case errors.Is(err, sessions.ErrInUse):
		return nil, acp.InvalidRequest(fmt.Sprintf("session %s is open in another program; close it there first", id))
	case err != nil:
		return nil, notFound(id, err)
	}
	return &acp.ArchiveSessionResponse{}, nil
}

var _ interface {
	acp.SessionArchiver
	acp.SessionTeller
	acp.AuthTeller
} = (*Router)(nil)

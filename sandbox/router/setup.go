package router

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
)

// Setup is how a person sets gander up, which in ACP is a way to authenticate:
// clients offer it where a session needs an agent, an endpoint or a key that is
// not there.
type Setup struct {
	// Args make the command that the client has started gander with one that asks
	// the person on a terminal. Without them the method is not offered.
	Args []string
	// Command does the same by itself: the program and its arguments.
	Command []string
	// Mends reports whether setting up would mend what an agent lacks. Such an
	// error makes clients offer the methods.
	Mends func(error) bool
	// Logout forgets the key that setting up has kept. Nil where gander keeps none:
	// logging out is not offered then.
	Logout func() error
}

// The ids of the authentication methods.
const (
	authSetup      = "setup"         // on a terminal
	authConfigured = "configuration" // what is configured is enough
)

// authMethods are the ways to authenticate for a client. There is always one:
// clients can do nothing about the error that asks for it otherwise, and the
// registry of agents wants one.
func (r *Router) authMethods(c acp.ClientCapabilities) []acp.AuthMethod {
	methods := []acp.AuthMethod{{
		ID: authConfigured, Name: "Use gander's configuration",
		Description: "Checks that the model endpoint, key and model of config.json or of LLM_HOST, LLM_API_KEY and GOOSE_MODEL are there. \"gander setup\" writes them.",
	}}
	setup := acp.AuthMethod{
		ID: authSetup, Name: "Set up gander in a terminal",
		Description: "Asks for the model endpoint, the key, the model, the agent and the sandbox.",
	}
	legacy := string(c.Meta["terminal-auth"]) == "true"
	switch {
	case c.Auth.Terminal && len(r.opts.Setup.Args) > 0:
		setup.Type, setup.Args, setup.Env = "terminal", r.opts.Setup.Args, map[string]string{}
		methods = append(methods, setup)
	case legacy && len(r.opts.Setup.Command) > 0:
		setup.Meta = legacyTerminal(setup.Name, r.opts.Setup.Command)
		methods = append(methods, setup)
	}
	return methods
}

// legacyTerminal is how clients from before the terminal methods (Zed's) learn of
// a command to run.
func legacyTerminal(label string, command []string) json.RawMessage {
	meta, _ := json.Marshal(map[string]any{"terminal-auth": map[string]any{ // strings always marshal
		"label": label, "command": command[0], "args": command[1:], "env": map[string]string{},
	}})
	return meta
}

// Authenticate implements acp.Authenticator. Keys are configured outside of ACP:
// what there is to do is to look whether the default agent has all it needs now.
func (r *Router) Authenticate(ctx context.Context, req *acp.AuthenticateRequest) (*acp.AuthenticateResponse, error) {
	if req.MethodID != authConfigured && req.MethodID != authSetup {
		return nil, acp.InvalidParams(fmt.Sprintf("there is no authentication method %q: gander takes the model's key from LLM_API_KEY or its configuration, which gander setup writes", req.MethodID), nil)
	}
	agent, err := r.agent(r.opts.Agent)
	if err != nil {
		return nil, err
	}
	if err := agent.Check(ctx); err != nil {
		return nil, r.lacking(err)
	}
	return &acp.AuthenticateResponse{}, nil
}

// authCapabilities say that the state can be asked for, and whether one can log out.
func (r *Router) authCapabilities() json.RawMessage {
	if r.opts.Setup.Logout == nil {
		return json.RawMessage(`{"status":{}}`)
	}
	return json.RawMessage(`{"status":{},"logout":{}}`)
}

// AuthStatus implements acp.AuthTeller: whether the default agent has all that it needs. A
// key that is there may still be refused by the model's endpoint.
func (r *Router) AuthStatus(ctx context.Context, _ *acp.AuthStatusRequest) (*acp.AuthStatusResponse, error) {
	agent, err := r.agent(r.opts.Agent)
	if err == nil {
		err = agent.Check(ctx)
	}
	state := acp.AuthStateUnknown
	switch mends := r.opts.Setup.Mends; {
	case err == nil:
		state = acp.AuthStateAuthenticated
	case mends != nil && mends(err):
		state = acp.AuthStateUnauthenticated
	}
	return &acp.AuthStatusResponse{State: state}, nil
}

// Logout implements acp.Logouter: the key is forgotten, and the agents end, each when
// its turn has. Sessions stay open; their next prompts need a key again.
func (r *Router) Logout(context.Context, *acp.LogoutRequest) (*acp.LogoutResponse, error) {
	if r.opts.Setup.Logout == nil {
		return nil, acp.ErrMethodNotFound
	}
	if err := r.opts.Setup.Logout(); err != nil {
		return nil, acp.Internal(err.Error(), nil)
	}
	r.mu.Lock()
	open := slices.Collect(maps.Values(r.sessions))
	r.mu.Unlock()
	for _, s := range open {
		s.restart(false)
	}
	return &acp.LogoutResponse{}, nil
}

// lacking is the error of an agent that lacks something.
func (r *Router) lacking(err error) error {
	if mends := r.opts.Setup.Mends; mends != nil && mends(err) {
		return acp.AuthRequired(err.Error())
	}
	if confine.Refused(err) { // no error of the agent's
		return acp.Internal(err.Error(), json.RawMessage(byPolicy))
	}
	return acp.Internal(err.Error(), nil)
}

// SetSessionModel implements acp.ModelSetter for clients from before config
// options: it sets the option of the model.
func (r *Router) SetSessionModel(ctx context.Context, req *acp.SetSessionModelRequest) (*acp.SetSessionModelResponse, error) {
	if a := r.attachment(req.SessionID); a != nil {
		return nil, a.chosen()
	}
	s, err := r.session(req.SessionID)
	if err != nil {
		return nil, err
	}
	if err := s.setOption(ctx, optionModel, req.ModelID); err != nil {
		return nil, err
	}
	s.acknowledge(ctx)
	return &acp.SetSessionModelResponse{}, nil
}

package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/router"
)

// Options say how a recording is played.
type Options struct {
	Recording *Recording
	// Speed is how many times as fast as it was recorded; 0 waits for nothing.
	Speed float64
	// Version is gander's own.
	Version string
	Log     *slog.Logger
}

// An Agent plays a recording to one client. The first session/new opens the first
// recorded session, the next one the next, and after the last it begins again;
// each prompt plays the next turn, whatever it says. session/load shows all of a
// recorded session at once.
type Agent struct {
	o      Options
	client *acp.ClientConn

	// mu guards what follows.
	mu    sync.Mutex
	next  int
	plays map[acp.SessionID]*play
}

// A play is an open session.
type play struct {
	id   acp.SessionID
	from *Session
	// turn is held while a turn is played, and guards after: what follows the last
	// response and is still to be sent.
	turn  sync.Mutex
	after []Step

	// of the agent's mu:
	played  int
	mode    *acp.SessionModeState
	options []acp.ConfigOption
	cancels map[int]context.CancelFunc
	number  int
}

// New returns the agent for a connection to client.
func New(client *acp.ClientConn, o Options) *Agent {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Agent{o: o, client: client, plays: map[acp.SessionID]*play{}}
}

// Initialize implements acp.Agent.
func (a *Agent) Initialize(context.Context, *acp.InitializeRequest) (*acp.InitializeResponse, error) {
	return &acp.InitializeResponse{
		AgentCapabilities: acp.AgentCapabilities{
			LoadSession:         true,
			PromptCapabilities:  acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{List: &acp.Supported{}, Close: &acp.Supported{}},
		},
		AgentInfo: &acp.Implementation{Name: "gander-replay", Title: "Gander (a recording)", Version: a.o.Version},
	}, nil
}

// NewSession implements acp.Agent.
func (a *Agent) NewSession(ctx context.Context, _ *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
	a.mu.Lock()
	from := a.o.Recording.Sessions[a.next%len(a.o.Recording.Sessions)]
	a.next++
	id := from.ID
	for n := 2; a.plays[id] != nil; n++ {
		id = acp.SessionID(fmt.Sprintf("%s-%d", from.ID, n))
	}
	p := a.open(id, from)
	a.mu.Unlock()
	a.follow(ctx, p, from.Opening)
	return &acp.NewSessionResponse{SessionID: id, Modes: p.mode, ConfigOptions: p.options}, nil
}

// open makes a play. mu is held.
func (a *Agent) open(id acp.SessionID, from *Session) *play {
	p := &play{id: id, from: from, options: slices.Clone(from.ConfigOptions), cancels: map[int]context.CancelFunc{}}
	if from.Modes != nil {
		modes := *from.Modes
		p.mode = &modes
	}
	a.plays[id] = p
	return p
}

// LoadSession implements acp.SessionLoader.
func (a *Agent) LoadSession(ctx context.Context, req *acp.LoadSessionRequest) (*acp.LoadSessionResponse, error) {
	i := slices.IndexFunc(a.o.Recording.Sessions, func(s *Session) bool { return s.ID == req.SessionID })
	if i < 0 {
		return nil, acp.SessionNotFound(req.SessionID)
	}
	from := a.o.Recording.Sessions[i]
	a.mu.Lock()
	p := a.open(from.ID, from)
	p.played = len(from.Turns)
	a.mu.Unlock()
	if err := a.show(ctx, p); err != nil {
		return nil, err
	}
	return &acp.LoadSessionResponse{Modes: p.mode, ConfigOptions: p.options}, nil
}

// show sends all of a session as what is over.
func (a *Agent) show(ctx context.Context, p *play) error {
	var past router.Revival
	update := func(u json.RawMessage) error {
		if u == nil {
			return nil
		}
		return a.client.SessionUpdate(ctx, &acp.SessionNotification{SessionID: p.id, Update: u})
	}
	for _, t := range p.from.Turns {
		for _, b := range t.Prompt {
			chunk, err := json.Marshal(map[string]any{"sessionUpdate": acp.UserMessageChunk, "content": b})
			if err != nil {
				continue // it was no JSON
			}
			if err := update(chunk); err != nil {
				return err
			}
		}
		for _, st := range t.Steps {
			if err := update(past.Revive(st.Update)); err != nil {
				return err
			}
		}
	}
	for _, u := range past.Unfinished() {
		if err := update(u); err != nil {
			return err
		}
	}
	return nil
}

// ListSessions implements acp.SessionLister.
func (a *Agent) ListSessions(_ context.Context, req *acp.ListSessionsRequest) (*acp.ListSessionsResponse, error) {
	if req.Cursor != "" {
		return nil, acp.InvalidParams("this cursor was never given: a recording is listed on one page", nil)
	}
	all := []acp.SessionInfo{}
	for _, s := range a.o.Recording.Sessions {
		if req.CWD == "" || req.CWD == s.CWD {
			all = append(all, acp.SessionInfo{SessionID: s.ID, CWD: s.CWD})
		}
	}
	return &acp.ListSessionsResponse{Sessions: all}, nil
}

// CloseSession implements acp.SessionCloser.
func (a *Agent) CloseSession(ctx context.Context, req *acp.CloseSessionRequest) (*acp.CloseSessionResponse, error) {
	if _, err := a.play(req.SessionID); err != nil {
		return nil, err
	}
	a.Cancel(ctx, &acp.CancelNotification{SessionID: req.SessionID})
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.plays, req.SessionID)
	return &acp.CloseSessionResponse{}, nil
}

func (a *Agent) play(id acp.SessionID) (*play, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.plays[id]
	if p == nil {
		return nil, acp.SessionNotFound(id)
	}
	return p, nil
}

// Prompt implements acp.Agent: it plays the next turn.
func (a *Agent) Prompt(ctx context.Context, req *acp.PromptRequest) (*acp.PromptResponse, error) {
	p, err := a.play(req.SessionID)
	if err != nil {
		return nil, err
	}
	ctx, done := a.begin(ctx, p)
	defer done()
	p.turn.Lock() // requests of a session start in order, so they come to this one by one
	defer p.turn.Unlock()
	acp.Release(ctx)
	a.sendAfter(ctx, p) // a client may ask before it was sent
	t, err := a.take(p)
	if err != nil {
		return nil, err
	}
	err = a.send(ctx, p, t.Steps, t.Begun)
	switch {
	case ctx.Err() != nil:
		return &acp.PromptResponse{StopReason: acp.StopCancelled}, nil
	case err != nil:
		return nil, err
	case t.Failure != nil:
		return nil, t.Failure
	case !t.Ended:
		return nil, acp.Internal("the recording ends inside this turn: what came after it was never recorded", nil)
	}
	a.follow(ctx, p, t.After)
	return &acp.PromptResponse{StopReason: t.StopReason, Usage: t.Usage}, nil
}

// follow has steps sent behind the response to the request of ctx. The
// caller holds turn, or nobody else knows the session.
func (a *Agent) follow(ctx context.Context, p *play, steps []Step) {
	p.after = steps
	acp.AfterReply(ctx, func() {
		p.turn.Lock()
		defer p.turn.Unlock()
		a.sendAfter(ctx, p)
	})
}

// sendAfter sends what follows the last response, once. The caller holds turn.
func (a *Agent) sendAfter(ctx context.Context, p *play) {
	steps := p.after
	p.after = nil
	_ = a.send(context.WithoutCancel(ctx), p, steps, time.Time{}) // an error is the end of the connection
}

// begin makes a prompt one that a cancel ends, until done is called.
func (a *Agent) begin(ctx context.Context, p *play) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	n := p.number
	p.number++
	p.cancels[n] = cancel
	return ctx, func() {
		cancel()
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(p.cancels, n)
	}
}

// take is the next turn of a session.
func (a *Agent) take(p *play) (*Turn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.played >= len(p.from.Turns) {
		return nil, acp.Internal(fmt.Sprintf("the recording is over: all of its turns (%d) were played; open a new session to see it again", len(p.from.Turns)), nil)
	}
	t := p.from.Turns[p.played]
	p.played++
	return t, nil
}

// send does the steps of a turn, in their time when there is a speed.
func (a *Agent) send(ctx context.Context, p *play, steps []Step, before time.Time) error {
	for _, st := range steps {
		if err := a.pause(ctx, st.Time.Sub(before), before.IsZero() || st.Time.IsZero()); err != nil {
			return err
		}
		before = st.Time
		if st.Question != nil {
			if err := a.ask(ctx, p, st.Question); err != nil {
				return err
			}
			continue
		}
		if err := a.client.SessionUpdate(ctx, &acp.SessionNotification{SessionID: p.id, Update: st.Update}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (a *Agent) pause(ctx context.Context, d time.Duration, unknown bool) error {
	if a.o.Speed <= 0 || unknown || d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(float64(d) / a.o.Speed))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask asks for permission as it was asked then. Whatever the answer, the recording
// goes on as it was.
func (a *Agent) ask(ctx context.Context, p *play, q *acp.RequestPermissionRequest) error {
	again := *q
	again.SessionID = p.id
	_, err := a.client.RequestPermission(ctx, &again)
	if _, refused := errors.AsType[*acp.Error](err); refused {
		a.o.Log.Warn("the client did not answer a question of the recording", "err", err)
		return nil
	}
	return err
}

// Cancel implements acp.Agent: the turn ends, and the next prompt plays the next one.
func (a *Agent) Cancel(_ context.Context, n *acp.CancelNotification) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.plays[n.SessionID]; p != nil {
		for _, cancel := range p.cancels {
			cancel()
		}
	}
}

// SetSessionMode implements acp.ModeSetter. It changes what is shown and nothing else.
func (a *Agent) SetSessionMode(_ context.Context, req *acp.SetSessionModeRequest) (*acp.SetSessionModeResponse, error) {
	p, err := a.play(req.SessionID)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.mode == nil || !slices.ContainsFunc(p.mode.AvailableModes, func(m acp.SessionMode) bool { return m.ID == req.ModeID }) {
		return nil, acp.InvalidParams(fmt.Sprintf("the recording has no mode %q", req.ModeID), nil)
	}
	p.mode.CurrentModeID = req.ModeID
	return &acp.SetSessionModeResponse{}, nil
}

// SetConfigOption implements acp.ConfigOptionSetter. It changes what is shown and
// nothing else.
func (a *Agent) SetConfigOption(_ context.Context, req *acp.SetConfigOptionRequest) (*acp.SetConfigOptionResponse, error) {
	p, err := a.play(req.SessionID)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(p.options, func(o acp.ConfigOption) bool { return o.ID == req.ConfigID })
	if i < 0 || !offers(p.options[i], req.Value) {
		return nil, acp.InvalidParams(fmt.Sprintf("the recording has no option %q with the value %s", req.ConfigID, req.Value), nil)
	}
	p.options[i].CurrentValue = req.Value
	return &acp.SetConfigOptionResponse{ConfigOptions: slices.Clone(p.options)}, nil
}

// offers says whether a value is among those of an option, grouped or not.
func offers(o acp.ConfigOption, value json.RawMessage) bool {
	var word string
	if json.Unmarshal(value, &word) != nil {
		return o.Type == "boolean" && (string(value) == "true" || string(value) == "false")
	}
	var choices []struct {
		Value   string
		Options []struct{ Value string }
	}
	_ = json.Unmarshal(o.Options, &choices) // without choices there are none
	for _, c := range choices {
		if len(c.Options) == 0 && c.Value == word {
			return true
		}
		for _, inner := range c.Options {
			if inner.Value == word {
				return true
			}
		}
	}
	return false
}

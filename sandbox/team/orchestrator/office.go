package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
)

// office has the connection to the agents that get tasks, and knows the threads of the
// conversation. What it knows of threads it had from the list of sessions, in this process
// or the next one.
type office struct {
	s *session

	// mu guards what follows.
	mu      sync.Mutex
	team    *Team
	closed  bool
	threads []*thread // the newest of an agent and a task last
}

// thread is a session of an agent in which a task, and what belongs to it, is worked on.
type thread struct {
	agent, task string
	key         string // of the session
	id          acp.SessionID
	open        bool // on this connection
	used        time.Time
	options     []acp.ConfigOption
	stop        acp.StopReason // how the last turn ended; empty when it was cut short
	last        string         // the beginning of the last answer
}

// errClosed means that the conversation is being closed.
var errClosed = errors.New("the conversation is being closed")

// connect connects to the agents once, and lists the threads there are.
func (o *office) connect(ctx context.Context) (*Team, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, errClosed
	}
	if o.team != nil {
		return o.team, nil
	}
	team, err := o.s.a.o.Team(o.s.p.Session, (*client)(o.s))
	if err != nil {
		return nil, err
	}
	_, err = team.Initialize(ctx, &acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersion,
		ClientCapabilities: acp.ClientCapabilities{
			FS: o.s.p.Capabilities.FS, Elicitation: o.s.p.Capabilities.Elicitation, Session: acp.ClientSessionCapabilities{Notices: json.RawMessage(`{}`)},
		},
		ClientInfo: &acp.Implementation{Name: Name},
	})
	if err == nil {
		err = o.list(ctx, &team)
	}
	if err != nil {
		team.Close()
		return nil, err
	}
	o.team = &team
	return o.team, nil
}

// list reads which threads there are. mu is held.
func (o *office) list(ctx context.Context, team *Team) error {
	o.threads = nil
	for cursor := ""; ; {
		page, err := team.ListSessions(ctx, &acp.ListSessionsRequest{CWD: o.s.p.WorkingDir, Cursor: cursor})
		if err != nil {
			return err
		}
		for _, info := range page.Sessions {
			if t := o.listed(&info); t != nil {
				o.threads = slices.Insert(o.threads, 0, t)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}

// listed is a session of the list as a thread; nil for one of another conversation.
func (o *office) listed(info *acp.SessionInfo) *thread {
	var meta map[string]struct {
		Agent      string         `json:"agent"`
		Key        string         `json:"sessionKey"`
		StopReason acp.StopReason `json:"stopReason"`
	}
	_ = json.Unmarshal(info.Meta, &meta) // without it there is no key
	m := meta["gander.dev"]
	task, ok := strings.CutPrefix(m.Key, keyOf(m.Agent, o.s.ID(), ""))
	if !ok {
		return nil
	}
	return &thread{agent: m.Agent, task: task, key: m.Key, id: info.SessionID, stop: m.StopReason}
}

// keyOf is the key of the session of a thread.
func keyOf(agent, conversation, task string) string {
	return fmt.Sprintf("agent:%s:task:%s.%s", agent, conversation[max(0, len(conversation)-8):], task)
}

// known tells the planner of the threads.
func (o *office) known() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for _, t := range o.threads {
		how := "ended with " + string(t.stop)
		if t.stop == "" {
			how = "its last turn was cut short"
		}
		fmt.Fprintf(&b, "- %s: agent %s, %s", t.task, t.agent, how)
		if t.last != "" {
			fmt.Fprintf(&b, "; last answer: %s", t.last)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// find returns the thread of an agent and a task; nil when there is none.
func (o *office) find(agent, task string) *thread {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := len(o.threads) - 1; i >= 0; i-- {
		if t := o.threads[i]; t.agent == agent && t.task == task {
			return t
		}
	}
	return nil
}

// enter opens a thread, which may be new, so that it can be prompted.
func (o *office) enter(ctx context.Context, team *Team, t *thread, access string) error {
	p := o.s.p
	if t.open {
		return nil
	}
	var options []acp.ConfigOption
	if t.id != "" {
		resp, err := team.ResumeSession(ctx, &acp.ResumeSessionRequest{SessionID: t.id, CWD: p.WorkingDir, AdditionalDirectories: p.Dirs, MCPServers: servers(p.Servers)})
		if err != nil {
			return err
		}
		options = resp.ConfigOptions
	} else {
		meta, _ := json.Marshal(map[string]any{"agent": t.agent, "sessionKey": t.key, "noSession": p.Unkept, "access": access}) // such a map always encodes
		resp, err := team.NewSession(ctx, &acp.NewSessionRequest{CWD: p.WorkingDir, AdditionalDirectories: p.Dirs, MCPServers: servers(p.Servers), Meta: meta})
		if err != nil {
			return err
		}
		t.id, options = resp.SessionID, resp.ConfigOptions
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.open, t.options = true, options
	if !slices.Contains(o.threads, t) {
		o.threads = append(o.threads, t)
	}
	return nil
}

// servers is a list that is one in JSON, too, when it is empty.
func servers(all []json.RawMessage) []json.RawMessage { return append([]json.RawMessage{}, all...) }

// maxOpen bounds the threads that are open while nobody works in them: each has a sandbox.
const maxOpen = 4

// leave notes that nobody works in a thread any more, and closes those that were used
// longest ago.
func (o *office) leave(ctx context.Context, team *Team, t *thread) {
	o.mu.Lock()
	t.used = time.Now()
	var open []*thread
	for _, t := range o.threads {
		if t.open && !o.s.isWorkedIn(t.id) {
			open = append(open, t)
		}
	}
	slices.SortFunc(open, func(a, b *thread) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.key, b.key)) })
	open = open[:max(0, len(open)-maxOpen)]
	for _, t := range open {
		t.open = false
	}
	o.mu.Unlock()
	for _, t := range open {
		if _, err := team.CloseSession(ctx, &acp.CloseSessionRequest{SessionID: t.id}); err != nil {
			o.s.a.o.Log.Debug("closing a thread of an agent", "session", t.id, "err", err)
		}
	}
}

// close ends the connection, and with it all that the agents started.
func (o *office) close() {
	o.mu.Lock()
	team := o.team
	o.team, o.closed = nil, true
	o.mu.Unlock()
	if team != nil {
		team.Close()
	}
}

// isWorkedIn reports whether a task is worked on in a session.
func (s *session) isWorkedIn(id acp.SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working[id] != nil
}

package router

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sessions"
)

// session is one of the editor's sessions: which agent answers it where, the
// queue of its turns, and what the editor was told.
//
// Locks are taken in the order replacing, choosing, publishing, relay.mu, mu.
type session struct {
	r          *Router
	id         acp.SessionID
	cwd        string
	dirs       []string // additional directories
	log        *slog.Logger
	transcript *sessions.Transcript
	unkept     bool   // it is removed when it is closed
	system     string // the client's instructions for agents
	claim      func() // lets others run the session
	servers    *servers
	ctx        context.Context // ends with close
	stop       context.CancelFunc
	now        context.Context // has ended: what is sent with it does not wait for a slow client
	announced  chan struct{}   // closed when the client knows the session id
	work       sync.WaitGroup  // everything that runs for the session
	files      *comparer       // nil: files are not compared

	replacing sync.Mutex // held while agent, sandbox or tools change

	// choosing is held while the agent is given the person's choices, so that the
	// last choice wins also while the agent starts.
	choosing sync.Mutex

	// publishing is held while the client is told what changed; it guards published.
	publishing sync.Mutex
	published  published

	traces traces
	leaks  *leaks
	calls  *callIDs

	// mu guards what follows; it is held for moments.
	mu      sync.Mutex
	agent   sandbox.Agent
	driver  sandbox.Driver
	tools   string // ToolsNative or ToolsDeveloper, for agents that can
	access  string // AccessWrite or AccessRead, as chosen
	want    choices
	known   sandbox.AgentState // what to show while no agent runs
	backend *backend           // nil: none started, or it has ended
	spare   *spare             // a sandbox for the first backend, if it fits
	leaving *backend           // the one before, until its turn and itself have ended
	seen    map[string]memory  // what agents know of the conversation, by name
	homes   map[string]bool    // agents that have used their homes since the session was opened
	last    string             // the id of the last turn that an agent was given
	queue   []*turn            // the first one runs
	turns   int                // how many were queued since the session was opened
	pending []notice           // for the next turn
	told    map[string]bool    // notices already given
	title   string             // what the client was told last that the session is called
	weaker  []string           // what the sandbox lacks in which an agent was started last
	halted  string             // why no prompt is answered; empty when they are
	closed  bool               // nothing starts any more
	place   os.FileInfo        // the directory cwd, when the session was opened
	offered os.FileInfo        // what is in its place and was not agreed to

	ports         []ports.Spec // to be open
	portsOpen     string       // PortsNamed or PortsListening
	permissions   string       // PermissionsAsk, ...
	asked         permissionsAsked
	children      map[acp.SessionID]*child // at work
	agentCommands []json.RawMessage        // slash commands that the agent has announced
}

// memory is what an agent knows of the conversation: the turns until turn are in
// its own session. Without turn it knows none; lost means that it has known some.
type memory struct {
	session string // the agent's own id
	turn    string
	lost    bool
}

// notice is a sentence of gander's own for the person.
type notice struct{ severity, text string }

// maxPending is how many notices wait for a turn; of more the first are dropped.
// They are in the transcript and the log all the same.
const maxPending = 20

// maxTold is how many notices are remembered as told; of more all may be told again.
const maxTold = 1000

func newSession(r *Router, id acp.SessionID, cwd string, dirs []string, set setting, tr *sessions.Transcript) *session {
	ctx, stop := context.WithCancel(r.ctx)
	now, ended := context.WithCancel(context.Background())
	ended()
	s := &session{
		r: r, id: id, cwd: cwd, dirs: dirs, transcript: tr,
		log: r.log.With("session", string(id)), ctx: ctx, stop: stop, now: now,
		announced: make(chan struct{}),
		agent:     set.agent, driver: set.driver, tools: set.tools, access: set.access,
		want:        choices{},
		known:       r.lastState(set.agent),
		permissions: cmp.Or(r.opts.Approve, PermissionsAsk),
		ports:       slices.Clone(r.opts.Ports),
		portsOpen:   PortsNamed,
		told:        map[string]bool{},
		seen:        map[string]memory{},
		homes:       map[string]bool{},
		calls:       newCallIDs(),
	}
	s.place, _ = os.Stat(cwd) // it was there a moment ago; else the first prompt says so
	s.leaks = newLeaks(s)
	s.servers = &servers{s: s}
	return s
}

// announce lets updates out: the client has the response that names the session.
func (s *session) announce() {
	s.mu.Lock()
	close(s.announced)
	weaker := len(s.weaker) > 0
	var waiting []notice
	if s.native() {
		waiting, s.pending = s.pending, nil
	}
	s.mu.Unlock()
	for _, n := range waiting {
		s.send(s.now, acp.NoticeUpdate(n.severity, n.text, ""))
	}
	s.publish()
	s.send(s.now, s.commandList())
	if weaker {
		s.titled(s.ctx)
	}
}

func (s *session) isAnnounced() bool {
	select {
	case <-s.announced:
		return true
	default:
		return false
	}
}

// close cancels what runs, ends the backend and the transcript.
func (s *session) close() {
	for _, t := range s.shut() { // turns in progress end within the cancel deadline
		<-t.finished
	}
	s.stop()
	s.mu.Lock()
	b, homes := s.backend, maps.Clone(s.homes)
	s.mu.Unlock()
	if b != nil {
		b.close()
	}
	s.servers.close()
	s.work.Wait()
	s.files.close()
	if sp := s.takeSpare(); sp != nil {
		sp.discard(s.r)
	}
	for _, a := range s.r.opts.Agents {
		if homes[a.Name()] {
			s.leaveHome(a)
		}
	}
	if err := s.transcript.Close(); err != nil {
		s.log.Error("closing the transcript", "err", err)
	}
	s.claim()
	if s.unkept {
		if err := s.r.kept().Erase(context.WithoutCancel(s.ctx), s.id); err != nil {
			s.log.Error("removing a session that is not to be kept", "err", err)
		}
	}
}

// shut lets nothing start any more and returns the cancelled turns.
func (s *session) shut() []*turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.queue {
		t.cancel(errCancelled)
	}
	return slices.Clone(s.queue)
}

// send sends one update to the client, once it knows the session. ctx bounds
// only the waiting for a client that is slow to read.
func (s *session) send(ctx context.Context, update json.RawMessage) {
	if !s.isAnnounced() {
		select {
		case <-s.announced:
		case <-s.ctx.Done():
			return
		}
	}
	s.pass(ctx, &acp.SessionNotification{Update: update})
}

// pass passes a notification on to the client, which knows the session.
func (s *session) pass(ctx context.Context, n *acp.SessionNotification) { s.passIn(ctx, s.id, n) }

// passIn is pass for an update in a session: this one, or a child of it.
func (s *session) passIn(ctx context.Context, id acp.SessionID, n *acp.SessionNotification) {
	n.SessionID = id
	if err := s.r.client.SessionUpdate(ctx, n); err != nil {
		s.log.Debug("sending an update", "err", err)
	}
}

// record appends to the transcript. A transcript that cannot be written is
// reported once; the session goes on.
func (s *session) record(turnID string, body sessions.Body) {
	s.append(sessions.Record{TurnID: turnID, Body: body})
}

func (s *session) append(r sessions.Record) {
	s.traces.record(r)
	err := s.transcript.Append(r)
	if err == nil {
		return
	}
	n := notice{"error", "This session is not being recorded any more: " + err.Error()}
	if s.firstTime(n.text) {
		s.log.Error(n.text)
		s.leave(n)
	}
}

// acknowledging bounds how long a response waits for a disk that hangs.
const acknowledging = 2 * time.Second

// acknowledge waits until what was recorded is on disk: what a client has an answer to
// stays, whatever ends.
func (s *session) acknowledge(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), acknowledging)
	defer stop()
	if err := s.transcript.Sync(ctx); err != nil && s.ctx.Err() == nil {
		s.log.Error("writing the transcript", "err", err)
	}
}

// notice tells the person something about the session, once.
func (s *session) notice(severity, text string) {
	if s.firstTime(shortNotice(text)) {
		s.tell(severity, text)
	}
}

func (s *session) firstTime(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.told[text]
	if len(s.told) >= maxTold {
		clear(s.told)
	}
	s.told[text] = true
	return !told
}

// maxNotice bounds a notice, in bytes: some have words of the agent's in them, and wait.
const maxNotice = 8 << 10

// shortNotice is a notice that says what is left out of it, if anything is.
func shortNotice(text string) string {
	over := len(text) - maxNotice
	if over <= 0 {
		return text
	}
	return fmt.Sprintf("%s [... %d bytes are left out here]", strings.ToValidUTF8(text[:maxNotice], ""), over)
}

// native reports whether the client shows notices.
func (s *session) native() bool { return s.r.client.Capabilities().Session.Notices != nil }

// tell tells the person something: as a notice where the client shows them, else
// as a thought in this or the next turn. It does not wait for the client.
func (s *session) tell(severity, text string) {
	text = shortNotice(s.r.opts.HideSecrets(text))
	level := slog.LevelWarn
	if severity == "info" {
		level = slog.LevelInfo
	}
	s.log.Log(s.now, level, text, "severity", severity)
	said := sessions.Record{Body: sessions.Notice{Level: severity, Text: text}}
	s.traces.record(said)
	_ = s.transcript.Append(said) // record reports a failure
	s.mu.Lock()
	b := s.backend
	s.mu.Unlock()
	if !s.native() && b != nil && b.relay.say(thought(text)) {
		return
	}
	s.leave(notice{severity, text})
}

// leave shows a notice at once where the client has a place for it, else it
// waits for the next turn.
func (s *session) leave(n notice) {
	if s.native() && s.isAnnounced() {
		s.send(s.now, acp.NoticeUpdate(n.severity, n.text, ""))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, n)
	if over := len(s.pending) - maxPending; over > 0 {
		s.pending = slices.Delete(s.pending, 0, over)
	}
}

// remark puts a sentence of gander's own into the thread and the transcript, where
// it is replayed from: at once where the client has a place for it, else with the
// next turn.
func (s *session) remark(text string) {
	s.record("", sessions.Update{Sent: []json.RawMessage{thought(text)}})
	s.leave(notice{"info", text})
}

// showPending gives the notices that waited for a turn.
func (s *session) showPending(ctx context.Context) {
	s.mu.Lock()
	pending := s.pending
	s.pending = nil
	s.mu.Unlock()
	for _, n := range pending {
		if s.native() {
			s.send(ctx, acp.NoticeUpdate(n.severity, n.text, ""))
		} else {
			s.send(ctx, thought(n.text))
		}
	}
}

// thought is a sentence of gander's own in the stream of a turn. It has a
// message id of its own so that clients keep it apart from the agent's words.
func thought(text string) json.RawMessage {
	return acp.MessageChunk(acp.AgentThoughtChunk, "gander-"+newID(), text+"\n")
}

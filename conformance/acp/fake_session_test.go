package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A fakeSession is a conversation, kept in a file of the home.
type fakeSession struct {
	id, cwd  string
	mode     string
	model    string
	tools    []string // of the client's servers
	poison   bool
	archived bool
	asked    bool

	turn sync.Mutex // the running turn

	// of the fake's mu:
	cancels []context.CancelFunc
	history []entry
}

// An entry is what is kept: a message for the model, the updates that show it.
type entry struct {
	Message map[string]any
	Updates []map[string]any
}

func home() string { return filepath.Join(os.Getenv("HOME"), "fake-sessions") }

func (s *fakeSession) file() string { return filepath.Join(home(), filepath.Base(s.id)+".json") }

// keep adds to the history; mu of the fake is not held.
func (f *fake) keep(s *fakeSession, e entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.history = append(s.history, e)
	if f.broken("saves at the end") {
		if len(f.saved) == 0 {
			f.saved = append(f.saved, s.save)
		}
		return
	}
	s.save()
}

func (s *fakeSession) save() {
	text, _ := json.Marshal(map[string]any{"id": s.id, "cwd": s.cwd, "history": s.history, "archived": s.archived})
	_ = os.MkdirAll(home(), 0o700)
	_ = os.WriteFile(s.file()+".new", text, 0o600)
	_ = os.Rename(s.file()+".new", s.file())
}

func stored(id string) *fakeSession {
	var kept struct {
		ID, CWD  string
		History  []entry
		Archived bool
	}
	if strings.ContainsAny(id, "/\x00") || len(id) > 200 || id == "" {
		return nil
	}
	s := &fakeSession{id: id, mode: "auto", model: "m1"}
	text, err := os.ReadFile(s.file())
	if err != nil || json.Unmarshal(text, &kept) != nil {
		return nil
	}
	s.cwd, s.history, s.archived = kept.CWD, kept.History, kept.Archived
	return s
}

type sessionParams struct {
	ProtocolVersion    *json.Number
	ClientCapabilities json.RawMessage
	MethodID           string
	SessionID          *string
	CWD                *string
	Cursor             *string
	Archived           string
	MCPServers         []struct {
		Name, Command string
		Args          []string
	}
	AdditionalDirectories []string
	Prompt                []json.RawMessage
	ModeID                *string
	ConfigID              *string
	Value                 *string
}

func (f *fake) request(id json.RawMessage, method string, params json.RawMessage) {
	var p sessionParams
	if err := json.Unmarshal(params, &p); err != nil && !f.broken("takes any params") && method != "authenticate" && !strings.HasPrefix(method, "_") {
		f.fail(id, -32602, "params: "+err.Error())
		return
	}
	switch method {
	case "initialize":
		f.initialize(id, p)
	case "authenticate":
		if f.broken("authenticates anyone") {
			f.reply(id, map[string]any{})
			return
		}
		f.fail(id, -32602, "no such method")
	case "logout":
		if f.broken("refuses logout") {
			f.fail(id, -32601, "no such method")
			return
		}
		f.reply(id, map[string]any{})
	case "session/new":
		f.newSession(id, p)
	case "session/options":
		f.ahead(id, p)
	case "session/status":
		f.status(id, p)
	case "session/archive", "session/unarchive":
		f.archive(id, method, p)
	case "session/list":
		f.list(id, p)
	case "session/load", "session/resume", "session/fork", "session/delete":
		f.old(id, method, p)
	case "session/prompt", "session/set_mode", "session/set_config_option", "session/close":
		f.open(id, method, p)
	default:
		if f.broken("answers anything") && strings.HasPrefix(method, "session/") {
			f.reply(id, map[string]any{})
			return
		}
		f.fail(id, -32601, "Method not found")
	}
}

func (f *fake) initialize(id json.RawMessage, p sessionParams) {
	version := 1
	if p.ProtocolVersion == nil && !f.broken("takes any version") {
		f.fail(id, -32602, "no protocolVersion")
		return
	}
	if p.ProtocolVersion != nil {
		n, err := p.ProtocolVersion.Int64()
		if (err != nil || n < 0) && !f.broken("takes any version") {
			f.fail(id, -32602, "protocolVersion")
			return
		}
		if f.broken("echoes versions") {
			version = int(n)
		}
	}
	if p.ClientCapabilities == nil && f.broken("insists on capabilities") {
		f.fail(id, -32602, "no clientCapabilities")
		return
	}
	f.offered = strings.Contains(string(p.ClientCapabilities), "promptSuggestions")
	none := map[string]any{}
	f.reply(id, map[string]any{
		"protocolVersion": version, "agentInfo": map[string]any{"name": "fake", "version": "1.0"},
		"agentCapabilities": map[string]any{
			"loadSession": true, "promptCapabilities": map[string]any{"image": true, "embeddedContext": true},
			"sessionCapabilities": map[string]any{"list": none, "resume": none, "close": none, "delete": none, "fork": none, "additionalDirectories": none, "archive": none, "status": none, "options": none},
			"auth":                map[string]any{"logout": none},
		},
		"authMethods": []any{map[string]any{"id": "setup", "name": "Set up", "type": "terminal", "args": []string{"--setup"}}},
	})
}

// options are what can be chosen in a session.
func (f *fake) options(s *fakeSession) []any {
	choice := func(id, category, current string, values ...string) any {
		var all []any
		for _, v := range values {
			all = append(all, map[string]any{"value": v, "name": v})
		}
		return map[string]any{"id": id, "name": id, "category": category, "type": "select", "currentValue": current, "options": all}
	}
	return []any{choice("model", "model", s.model, "m1", "m2"), choice("mode", "mode", s.mode, fakeModes...)}
}

var fakeModes = []string{"auto", "ask", "plan"}

func (f *fake) modes(s *fakeSession) any {
	var all []any
	for _, m := range fakeModes {
		all = append(all, map[string]any{"id": m, "name": m})
	}
	return map[string]any{"currentModeId": s.mode, "availableModes": all}
}

func (f *fake) update(s *fakeSession, kind string, fields map[string]any) map[string]any {
	fields["sessionUpdate"] = kind
	f.tell("session/update", map[string]any{"sessionId": s.id, "update": fields})
	return fields
}

func (f *fake) newSession(id json.RawMessage, p sessionParams) {
	cwd := ""
	switch {
	case p.CWD == nil && f.broken("takes any params"):
		cwd = os.Getenv("HOME")
	case p.CWD == nil:
		f.fail(id, -32602, "no cwd")
		return
	default:
		cwd = *p.CWD
	}
	if !filepath.IsAbs(cwd) && !f.broken("takes relative directories") {
		f.fail(id, -32602, "cwd is not absolute")
		return
	}
	if info, err := os.Stat(cwd); (err != nil || !info.IsDir()) && !f.broken("takes missing directories") && !f.broken("takes relative directories") {
		f.fail(id, -32602, "cwd is no directory")
		return
	}
	for _, dir := range p.AdditionalDirectories {
		if !filepath.IsAbs(dir) && !f.broken("takes any directories") {
			f.fail(id, -32602, "additionalDirectories is not absolute")
			return
		}
	}
	s := &fakeSession{id: fmt.Sprintf("fake-%d", time.Now().UnixNano()), cwd: cwd, mode: "auto", model: "m1"}
	if f.broken("gives ids twice") {
		s.id = "fake-1"
	}
	for _, server := range p.MCPServers {
		if server.Command == "/nowhere/no-such-program" && f.broken("insists on servers") {
			f.fail(id, -32603, "a server cannot be started")
			return
		}
		if !f.broken("ignores servers") {
			s.tools = append(s.tools, toolsOf(server.Name, server.Command, server.Args)...)
		}
	}
	f.mu.Lock()
	f.sessions[s.id] = s
	f.mu.Unlock()
	if f.broken("updates before the answer") {
		f.update(s, "available_commands_update", map[string]any{"availableCommands": []any{}})
	}
	f.reply(id, map[string]any{"sessionId": s.id, "modes": f.modes(s), "configOptions": f.options(s)})
	f.update(s, "available_commands_update", map[string]any{"availableCommands": []any{}})
}

func (f *fake) list(id json.RawMessage, p sessionParams) {
	if p.Cursor != nil && !f.broken("takes any cursor") {
		f.fail(id, -32602, "no such cursor")
		return
	}
	files, _ := filepath.Glob(filepath.Join(home(), "*.json"))
	all := []any{}
	for _, file := range files {
		s := stored(strings.TrimSuffix(filepath.Base(file), ".json"))
		if s == nil || !f.wants(p.Archived, s.archived) || p.CWD != nil && s.cwd != *p.CWD && !f.broken("ignores the filter") {
			continue
		}
		f.mu.Lock()
		own := f.sessions[s.id] != nil
		f.mu.Unlock()
		if own || !f.broken("lists its own only") {
			all = append(all, map[string]any{"sessionId": s.id, "cwd": s.cwd})
		}
	}
	f.reply(id, map[string]any{"sessions": all})
}

// old are the requests about a session that may be on disk only.
func (f *fake) old(id json.RawMessage, method string, p sessionParams) {
	if p.SessionID == nil {
		f.fail(id, -32602, "no sessionId")
		return
	}
	s := stored(*p.SessionID)
	if method == "session/delete" {
		if s != nil && !f.broken("deletes nothing") {
			_ = os.Remove(s.file())
			f.mu.Lock()
			delete(f.sessions, s.id)
			f.mu.Unlock()
		}
		f.reply(id, map[string]any{})
		return
	}
	if s == nil && f.broken("loads anything") {
		s = &fakeSession{id: *p.SessionID, mode: "auto", model: "m1"}
	}
	if s == nil {
		f.fail(id, -32002, "no such session")
		return
	}
	if f.broken("moves sessions") && p.CWD != nil {
		s.cwd = *p.CWD
	}
	if p.CWD != nil && *p.CWD != s.cwd && !f.broken("loads anything") {
		f.fail(id, -32602, "the session is in "+s.cwd)
		return
	}
	result := map[string]any{"modes": f.modes(s), "configOptions": f.options(s)}
	replay := method == "session/load"
	switch method {
	case "session/fork":
		s.id = fmt.Sprintf("fake-%d", time.Now().UnixNano())
		result["sessionId"] = s.id
		if f.broken("forks empty") {
			s.history = nil
		}
		s.save()
	case "session/resume":
		replay = f.broken("replays on resume")
	}
	f.mu.Lock()
	f.sessions[s.id] = s
	f.mu.Unlock()
	if replay {
		f.replay(s)
	}
	if f.broken("forgets on load") {
		s.history = nil
	}
	f.reply(id, result)
}

func (f *fake) replay(s *fakeSession) {
	for _, e := range s.history {
		for _, u := range e.Updates {
			kind := u["sessionUpdate"].(string)
			if f.broken("replays answers only") && kind == "user_message_chunk" || f.broken("replays no tools") && strings.HasPrefix(kind, "tool_call") {
				continue
			}
			f.update(s, kind, u)
		}
	}
	if f.broken("replays twice") {
		s.history = append(s.history, s.history...)
		s.save()
	}
}

// open are the requests about a session that is open.
func (f *fake) open(id json.RawMessage, method string, p sessionParams) {
	if p.SessionID == nil && !f.broken("takes any params") {
		f.fail(id, -32602, "no sessionId")
		return
	}
	name := ""
	if p.SessionID != nil {
		name = *p.SessionID
	}
	f.mu.Lock()
	s := f.sessions[name]
	f.mu.Unlock()
	if s == nil && (f.broken("makes unknown sessions up") || f.broken("takes any params")) {
		f.reply(id, map[string]any{"stopReason": "end_turn"})
		return
	}
	if s == nil {
		f.fail(id, -32002, "no such session")
		return
	}
	switch method {
	case "session/prompt":
		f.prompted(id, s, p)
	case "session/set_mode":
		f.setMode(id, s, p)
	case "session/set_config_option":
		f.setOption(id, s, p)
	case "session/close":
		f.close(id, s)
	}
}

func (f *fake) close(id json.RawMessage, s *fakeSession) {
	if !f.broken("closes nothing") {
		if !f.broken("leaves commands when closing") {
			f.cancelSession(s.id)
			s.turn.Lock() // the turn that ends
			defer s.turn.Unlock()
		}
		f.mu.Lock()
		delete(f.sessions, s.id)
		if f.broken("closes everything") {
			for _, other := range f.sessions {
				for _, cancel := range other.cancels {
					cancel()
				}
			}
		}
		f.mu.Unlock()
	}
	if f.broken("leaks processes") {
		leak(4)
	}
	f.reply(id, map[string]any{})
}

func (f *fake) setMode(id json.RawMessage, s *fakeSession, p sessionParams) {
	known := p.ModeID != nil && slices.Contains(fakeModes, *p.ModeID)
	if known && *p.ModeID == "plan" && f.broken("refuses a mode") {
		known = false
	}
	if !known && !f.broken("takes any mode") {
		f.fail(id, -32602, "no such mode")
		return
	}
	if known {
		s.mode = *p.ModeID
	}
	if !f.broken("does not tell of modes") {
		f.update(s, "config_option_update", map[string]any{"configOptions": f.options(s)})
	}
	f.reply(id, map[string]any{})
}

func (f *fake) setOption(id json.RawMessage, s *fakeSession, p sessionParams) {
	ok := p.ConfigID != nil && p.Value != nil
	if ok && !f.broken("sets nothing") {
		switch {
		case *p.ConfigID == "mode" && slices.Contains(fakeModes, *p.Value):
			s.mode = *p.Value
			f.update(s, "current_mode_update", map[string]any{"currentModeId": s.mode})
		case *p.ConfigID == "model" && slices.Contains([]string{"m1", "m2"}, *p.Value):
			s.model = *p.Value
		default:
			ok = false
		}
	}
	if !ok && !f.broken("takes any value") {
		f.fail(id, -32602, "no such option or value")
		return
	}
	f.reply(id, map[string]any{"configOptions": f.options(s)})
}

func (f *fake) cancelSession(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.id != id && !f.broken("cancels everything") {
			continue
		}
		if f.broken("poisons the next prompt") && len(s.cancels) == 0 {
			s.poison = true
		}
		for i, cancel := range s.cancels {
			if !f.broken("ignores cancels") && (i == 0 || !f.broken("cancels the first only")) {
				cancel()
			}
		}
	}
}

package router

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/rules/permit"
)

// toolCall is a tool call that has no final status yet.
type toolCall struct {
	id       string // the agent's
	shown    string // the client's, see callIDs
	kind     string
	terminal *terminal // non-nil when shown as a terminal
	printed  *leakPieces

	// What a question about it is told by: the agent's own name of the tool, its
	// input and the files that it names, as far as the agent has said.
	tool  string
	input json.RawMessage
	paths []string
	// several says that the id stands for calls that differ: models choose ids, and which
	// one is asked about cannot be told.
	several bool
}

// toolCalls are the open tool calls of a turn in the order they came. There are
// few at a time.
type toolCalls []*toolCall

func (c toolCalls) all() []*toolCall { return c }

func (c toolCalls) find(id string) *toolCall {
	for _, tc := range c {
		if tc.id == id {
			return tc
		}
	}
	return nil
}

func (c *toolCalls) remove(id string) {
	*c = slices.DeleteFunc(*c, func(tc *toolCall) bool { return tc.id == id })
}

// calls is the book of the tool calls of a session as the client has it: of the thread, or
// of a child session.
type calls struct {
	s     *session
	ids   *callIDs
	emit  func(update json.RawMessage) // records and sends what gander says of a call
	tools toolCalls                    // the turn's open ones
	ended map[string]string            // the client's ids of its other ones, by the agent's
	shown *shownDiffs                  // what the turn's tool calls have shown
	was   *wholeTexts                  // what the turn found and has written as a whole
}

// callIDs are the ids of tool calls by which the client knows some already. It takes a
// call with such an id for the one before, and models choose ids: some begin to count
// anew in every turn, some have one for all.
type callIDs struct {
	seed maphash.Seed

	// mu guards used.
	mu   sync.Mutex
	used map[uint64]struct{}
}

// maxCallIDs bounds the ids that are known; of more all are forgotten.
const maxCallIDs = 1 << 16

func newCallIDs() *callIDs {
	return &callIDs{seed: maphash.MakeSeed(), used: map[uint64]struct{}{}}
}

// take makes an id one that the client knows, and reports whether it was not before.
func (c *callIDs) take(id string) (fresh bool) {
	sum := maphash.String(c.seed, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.used[sum]
	if len(c.used) >= maxCallIDs {
		clear(c.used)
	}
	c.used[sum] = struct{}{}
	return !known
}

// shown is the id that the client gets for a call with an id of the agent's.
func (c *callIDs) shown(id string) string {
	if c.take(id) {
		return id
	}
	id += "-" + strings.ToLower(rand.Text()[:8])
	c.take(id)
	return id
}

// toolUpdate is what the relay reads of tool_call and tool_call_update. Its lists
// are decoded only when something is to be done with them.
type toolUpdate struct {
	ToolCallID, Kind, Status                             string
	content, locations, rawInput, rawOutput, title, meta json.RawMessage
}

// readToolUpdate reads an update, in the order of its fields and without decoding the rest.
func readToolUpdate(update json.RawMessage) toolUpdate {
	var u toolUpdate
	for key, value := range acp.Members(update) {
		switch string(key) {
		case "toolCallId":
			u.ToolCallID = stringOf(value)
		case "kind":
			u.Kind = stringOf(value)
		case "status":
			u.Status = stringOf(value)
		case "content":
			u.content = value
		case "locations":
			u.locations = value
		case "rawInput":
			u.rawInput = value
		case "rawOutput":
			u.rawOutput = value
		case "title":
			u.title = value
		case "_meta":
			u.meta = value
		}
	}
	return u
}

// stringOf is a raw JSON string; empty for anything else.
func stringOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // anything else is as good as absent
	return s
}

// listOf is a raw JSON list of anything.
func listOf(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list) // anything else is as good as absent
	return list
}

func (u *toolUpdate) final() bool { return u.Status == "completed" || u.Status == "failed" }

// tool keeps the book of open tool calls and mends their updates. An error means that
// the client must not get the update, nor, but for errEnded, the transcript. mu is held.
func (k *calls) tool(kind string, update json.RawMessage) (json.RawMessage, error) {
	u := readToolUpdate(update)
	if u.ToolCallID == "" {
		return update, nil
	}
	if len(u.ToolCallID) > maxInput {
		return nil, errLongID // of as many as there are in a thread, each would be kept when it is loaded
	}
	set := k.mendPaths(u.content, u.locations)
	tc, shown := k.callOf(kind, u.ToolCallID)
	if tc == nil && u.Status != "" && !u.final() {
		return nil, errEnded
	}
	if shown != u.ToolCallID {
		set["toolCallId"] = shown
	}
	if bytes.Contains(u.content, []byte(`"diff"`)) {
		if list, changed := set["content"].([]json.RawMessage); changed {
			u.content = marshal(list)
		}
		if list, changed := k.was.complete(u.content); changed {
			set["content"], u.content = list, marshal(list)
		}
		k.shown.add(shown, u.content)
	}
	if tc == nil {
		return acp.WithFields(update, set), k.s.leaks.pieces().next(u.meta)
	}
	if !tc.learn(kind, &u) {
		tc.several = true
	}
	if kind == "tool_call" && tc.kind == "execute" && k.s.showsTerminals() {
		tc.terminal = &terminal{id: tc.shown, cwd: k.s.cwd}
	}
	switch {
	case tc.terminal != nil:
		tc.terminal.mend(kind, &u, set)
	case tc.kind == "execute":
		u.plain(set)
	}
	if u.final() {
		k.closeTool(tc)
	}
	return acp.WithFields(update, set), tc.printed.next(u.meta)
}

// callOf is the open call that an update is about, and the client's id of it; nil for one
// that has ended in this turn. mu is held.
func (k *calls) callOf(kind, id string) (tc *toolCall, shown string) {
	if tc = k.tools.find(id); tc != nil {
		return tc, tc.shown
	}
	if shown, late := k.ended[id]; late && kind == "tool_call_update" {
		return nil, shown
	}
	tc = k.openTool(id)
	return tc, tc.shown
}

// openTool is a call that was not open. mu is held.
func (k *calls) openTool(id string) *toolCall {
	if len(k.tools) >= maxOpenTools {
		k.endTool(k.tools[0], "failed", "Too many tool calls are open at a time.")
		k.closeTool(k.tools[0])
	}
	tc := &toolCall{id: id, shown: k.ids.shown(id), printed: k.s.leaks.pieces()}
	k.tools = append(k.tools, tc)
	return tc
}

// endAll gives every open call a final status: failed with a reason, completed without one.
// mu is held.
func (k *calls) endAll(reason string) {
	status := "completed"
	if reason != "" {
		status = "failed"
	}
	for _, tc := range k.tools.all() {
		k.endTool(tc, status, reason)
	}
	k.tools, k.ended = toolCalls{}, nil
}

// endTool gives a tool call that the agent has left open a final status. mu is held.
func (k *calls) endTool(tc *toolCall, status, reason string) {
	update := acp.ToolCallFinal(tc.shown, status, reason)
	if tc.terminal != nil {
		update = tc.terminal.final(update, status, reason)
	}
	k.emit(update)
}

// closeTool takes a call that has a final status out of the open ones. mu is held.
func (k *calls) closeTool(tc *toolCall) {
	k.tools.remove(tc.id)
	if k.ended == nil || len(k.ended) >= maxOpenTools {
		k.ended = map[string]string{}
	}
	k.ended[tc.id] = tc.shown
}

// errEnded is about what comes late: nothing would end the call again, and its output so far
// would take the place of its result.
var errEnded = errors.New("it goes on with a tool call that has ended")

var errLongID = fmt.Errorf("a tool call's id has more than %d bytes", maxInput)

const (
	// maxInput bounds the input that is kept of a tool call, and each of its names, in bytes.
	maxInput = 16 << 10
	// maxOpenTools bounds the open tool calls of a turn; of more the first are ended.
	maxOpenTools = 500
)

// learn keeps what a question about the call may need. It reports false for the
// announcement of another call than the one that is open.
func (tc *toolCall) learn(kind string, u *toolUpdate) (same bool) {
	before := *tc
	if u.Kind != "" && len(u.Kind) <= maxInput {
		tc.kind = u.Kind
	}
	if name := toolName(u); kind == "tool_call" && len(name) <= maxInput {
		tc.tool = name
	}
	if !isEmpty(u.rawInput) {
		tc.input = bytes.Clone(short(u.rawInput))
	}
	if len(u.locations) > 0 {
		tc.paths = pathsIn(short(u.locations), "")
	}
	return kind != "tool_call" || before.tool == "" ||
		before.tool == tc.tool && before.kind == tc.kind && (before.input == nil || bytes.Equal(before.input, tc.input))
}

// short is raw JSON that is not too long to be kept, else nil: then it is not known.
func short(raw json.RawMessage) json.RawMessage {
	if len(raw) > maxInput {
		return nil
	}
	return raw
}

// toolName is what the agent calls the tool: goose says it in _meta, others have it
// as the first title.
func toolName(u *toolUpdate) string {
	var meta struct {
		Goose struct {
			ToolCall struct {
				ToolName      string `json:"toolName"`
				ExtensionName string `json:"extensionName"`
			} `json:"toolCall"`
		} `json:"goose"`
	}
	if bytes.Contains(u.meta, []byte(`"toolName"`)) && acp.Decode(u.meta, &meta) == nil {
		return meta.Goose.ToolCall.ExtensionName + "/" + meta.Goose.ToolCall.ToolName
	}
	return stringOf(u.title)
}

// mendPaths makes the paths of locations and diffs absolute, as ACP demands.
func (k *calls) mendPaths(content, locations json.RawMessage) map[string]any {
	set := map[string]any{}
	if list, changed := k.absolute(locations, ""); changed {
		set["locations"] = list
	}
	if list, changed := k.absolute(content, "diff"); changed {
		set["content"] = list
	}
	return set
}

// absolute makes the path of each object absolute; with a type, only of objects of that type.
func (k *calls) absolute(list json.RawMessage, typ string) ([]json.RawMessage, bool) {
	if !bytes.Contains(list, []byte(`"path"`)) { // most have none
		return nil, false
	}
	changed := false
	objects := listOf(list)
	for i, raw := range objects {
		o := fileOf(raw)
		if o.Type != typ || o.Path == "" || filepath.IsAbs(o.Path) {
			continue
		}
		changed = true
		objects[i] = acp.WithFields(raw, map[string]any{"path": filepath.Join(k.s.cwd, o.Path)})
	}
	return objects, changed
}

// namedFile is what a tool call's location or diff names.
type namedFile struct {
	Type string `json:"type"`
	Path string `json:"path"`
}

func fileOf(object json.RawMessage) (f namedFile) {
	_ = acp.Decode(object, &f) // anything else names none
	return f
}

// describe puts command and directory where a person sees them when asked. mu is held.
func (k *calls) describe(question json.RawMessage) json.RawMessage {
	u, tc := k.askedAbout(question)
	set := k.mendPaths(u.Content, u.Locations)
	if tc != nil && tc.shown != tc.id {
		set["toolCallId"] = tc.shown
	}
	if tc != nil && tc.kind != "" && !tc.several {
		set["kind"] = tc.kind
	}
	var input map[string]json.RawMessage
	_ = json.Unmarshal(u.RawInput, &input) // anything else has no command
	title := u.Title
	if command := strings.TrimSpace(stringOf(input["command"])); command != "" {
		title = firstLine(command)
		if len(listOf(u.Content)) == 0 {
			set["content"] = []any{acp.ToolContent(command)}
		}
	}
	if dir, ok := permit.Directory(input, k.s.cwd); ok && title != "" {
		title = fmt.Sprintf("%s   (in %s)", title, dir)
	}
	if title != "" {
		set["title"] = title
	}
	return acp.WithFields(question, set)
}

// firstLine is the first line of s, with an ellipsis when there is more.
func firstLine(s string) string {
	first, rest, _ := strings.Cut(s, "\n")
	if rest != "" {
		return first + " …"
	}
	return first
}

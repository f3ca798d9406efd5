package opencode

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// maxCalls bounds the open tool calls of a turn; a call over it replaces all.
const maxCalls = 256

// maxInput bounds each of the texts that are kept of what a call says, in bytes.
const maxInput = 1 << 20

// A mender rewrites the updates of tool calls.
type mender struct {
	dir string
	tag string // of this process: models may use an id in every process again

	// mu guards what follows: questions come beside the updates.
	mu    sync.Mutex
	count int              // of calls so far
	open  map[string]*call // by opencode's id
	// early is output of calls that opencode has not told of yet.
	early map[printed]string
}

// call is an open tool call.
type call struct {
	number    int
	id        string // as clients get to know it
	tool      string
	input     input
	arguments json.RawMessage // as far as they are known
	shown     string          // its output so far
	last      json.RawMessage // opencode's update before
	ended     chan struct{}
}

// input is what is read of a call's input.
type input struct {
	FilePath string  `json:"filePath"`
	Content  *string `json:"content"`
}

// Number implements acpagent.Held.
func (c *call) Number() int { return c.number }

// Size implements acpagent.Held.
func (c *call) Size() int {
	size := 2*len(c.id) + len(c.tool) + len(c.input.FilePath) + len(c.arguments) + len(c.shown) + len(c.last)
	if c.input.Content != nil {
		size += len(*c.input.Content)
	}
	return size
}

// Forget implements acpagent.Held. The end of the output stays, by which its next update
// tells what is new.
func (c *call) Forget() {
	c.input, c.arguments, c.last = input{}, nil, nil
	if over := len(c.shown) - 2*anchorSize; over > len(gap) { // or it was cut before
		c.shown = gap + strings.Clone(strings.ToValidUTF8(c.shown[over:], ""))
	}
}

func newMender(dir string) *mender {
	return &mender{dir: dir, tag: strings.ToLower(rand.Text()[:5]), open: map[string]*call{}, early: map[printed]string{}}
}

// begin forgets the calls of the turn before, of which a cancelled turn leaves some.
func (m *mender) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
}

// forget is begin. mu is held.
func (m *mender) forget() {
	for _, c := range m.open {
		close(c.ended)
	}
	clear(m.open)
	clear(m.early)
}

// awaitEnd returns when a call has ended, or with ctx.
func (m *mender) awaitEnd(ctx context.Context, opencodeID string) {
	m.mu.Lock()
	c := m.open[opencodeID]
	m.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
}

// toolUpdate is what is read of tool_call and tool_call_update.
type toolUpdate struct {
	ToolCallID string            `json:"toolCallId"`
	Title      string            `json:"title"`
	Status     string            `json:"status"`
	Content    []json.RawMessage `json:"content"`
	RawInput   json.RawMessage   `json:"rawInput"`
	RawOutput  json.RawMessage   `json:"rawOutput"`
}

// mend rewrites an update of a tool call; nil means that it says nothing new.
func (m *mender) mend(update json.RawMessage) json.RawMessage {
	var u toolUpdate
	if json.Unmarshal(update, &u) != nil || u.ToolCallID == "" {
		return update
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.bound()
	if acp.UpdateKind(update) == "tool_call" {
		if len(u.ToolCallID) > acpagent.MaxName || len(u.Title) > acpagent.MaxName {
			return update
		}
		c := m.start(&u)
		return acp.WithFields(update, c.fields())
	}
	c := m.open[u.ToolCallID]
	if c == nil || bytes.Equal(c.last, update) { // opencode repeats itself; of a call that has ended, too
		return nil
	}
	if c.last = nil; len(update) <= maxInput {
		c.last = bytes.Clone(update)
	}
	switch {
	case len(u.RawInput) > maxInput: // the one before is not what the call is about
		c.input, c.arguments = input{}, nil
	case len(u.RawInput) > 0:
		_ = acp.Decode(u.RawInput, &c.input) // other tools have other fields
		c.arguments = bytes.Clone(u.RawInput)
	}
	set := c.fields()
	path, diff := c.edit()
	if path != "" {
		set["locations"] = []map[string]string{{"path": path}} // made absolute by the router
	}
	if u.Status == "completed" && diff != nil {
		set["content"] = acpagent.Before(diff, u.Content)
	}
	if u.Status == "completed" || u.Status == "failed" {
		delete(m.open, u.ToolCallID)
		close(c.ended)
		m.end(c, &u, set)
	}
	if c.tool == "bash" {
		c.progress(&u, set)
	}
	if text := m.takeEarly(c); text != "" && u.Status == "in_progress" {
		c.shows(text, set)
	}
	return acp.WithFields(update, set)
}

// bound bounds what is kept of the open calls. mu is held.
func (m *mender) bound() { acpagent.Bound(maps.Values(m.open)) }

// start opens a call. Its id is one that was not used before: models may begin
// to count anew in every turn. mu is held.
func (m *mender) start(u *toolUpdate) *call {
	if old := m.open[u.ToolCallID]; old != nil {
		close(old.ended)
		delete(m.open, u.ToolCallID)
	}
	if len(m.open) >= maxCalls {
		m.forget()
	}
	m.count++
	c := &call{number: m.count, id: fmt.Sprintf("%s-%s%d", u.ToolCallID, m.tag, m.count), tool: u.Title, ended: make(chan struct{})}
	m.open[u.ToolCallID] = c
	return c
}

// fields are those that opencode gets wrong in every update of a call.
func (c *call) fields() map[string]any {
	set := map[string]any{"toolCallId": c.id}
	if name, ok := strings.CutPrefix(c.tool, serverTool); ok && kinds[name] != "" {
		set["kind"] = kinds[name]
	}
	return set
}

// edit is the file and the change of a call of the developer server's text_editor.
func (c *call) edit() (path string, diff any) {
	if c.tool != serverTool+"text_editor" {
		return "", nil
	}
	return acpagent.EditOf(c.arguments)
}

// question gives the call in a question the id that its updates have.
func (m *mender) question(toolCall json.RawMessage) json.RawMessage {
	var u toolUpdate
	if json.Unmarshal(toolCall, &u) != nil {
		return toolCall
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.open[u.ToolCallID]
	if c == nil {
		return toolCall
	}
	return acp.WithFields(toolCall, map[string]any{"toolCallId": c.id})
}

// end mends the last update of a call.
func (m *mender) end(c *call, u *toolUpdate, set map[string]any) {
	if out := c.output(u.RawOutput); out != nil {
		set["rawOutput"] = out
	}
	if u.Status != "completed" {
		return
	}
	if words := ending(u.RawOutput); words != "" && c.tool == "bash" {
		text := strings.TrimRight(acp.ToolText(u.Content), "\n") + "\n\n" + words
		raw, _ := json.Marshal(acp.ToolContent(text)) // always marshals
		u.Content = []json.RawMessage{raw}
		set["status"], set["content"] = "failed", []any{acp.ToolContent(text)}
	}
	if title := m.title(c, u.Title); title != u.Title {
		set["title"] = title
	}
	if c.tool == "write" && c.input.Content != nil && isNew(u.RawOutput) {
		diff := map[string]any{"type": "diff", "path": c.input.FilePath, "oldText": nil, "newText": *c.input.Content}
		content := []any{diff}
		for _, item := range u.Content {
			content = append(content, item)
		}
		set["content"] = content
	}
}

// ending says how a command ended that did not end well; opencode calls each completed, and tells
// nobody how it ended. It is empty for one that did.
func ending(rawOutput json.RawMessage) string {
	var out struct {
		Metadata struct {
			Exit json.RawMessage `json:"exit"`
		} `json:"metadata"`
	}
	var code int
	switch err := json.Unmarshal(rawOutput, &out); {
	case err != nil || len(out.Metadata.Exit) == 0 || string(out.Metadata.Exit) == "0":
		return ""
	case json.Unmarshal(out.Metadata.Exit, &code) != nil || string(out.Metadata.Exit) == "null":
		return "Command was ended"
	}
	return acpagent.ExitWords(code)
}

// title is the title of a call, which for tools that work on files is a path:
// outside of a repository opencode names it from the root on, without its slash.
func (m *mender) title(c *call, title string) string {
	full := "/" + title
	if name, err := filepath.Rel(m.dir, full); err == nil && filepath.IsLocal(name) {
		return name
	}
	if full == c.input.FilePath {
		return full
	}
	return title
}

// isNew reports whether the result of write says that there was no such file.
func isNew(rawOutput json.RawMessage) bool {
	var out struct {
		Metadata struct {
			Exists *bool `json:"exists"`
		} `json:"metadata"`
	}
	return json.Unmarshal(rawOutput, &out) == nil && out.Metadata.Exists != nil && !*out.Metadata.Exists
}

// metadataLimit is the size up to which a part of a result's metadata is passed
// on, in bytes: the large ones are the output, the file or the diff once more.
const metadataLimit = 512

// output is the result of a call without repetitions, and with a command's exit
// code where clients look for it; nil leaves it as it is.
func (c *call) output(rawOutput json.RawMessage) any {
	var out map[string]json.RawMessage
	var metadata map[string]json.RawMessage
	if json.Unmarshal(rawOutput, &out) != nil || json.Unmarshal(out["metadata"], &metadata) != nil {
		return nil
	}
	for name, value := range metadata {
		if len(value) > metadataLimit {
			delete(metadata, name)
		}
	}
	delete(metadata, "output")
	if exit, ok := metadata["exit"]; ok && c.tool == "bash" {
		if out["exit_code"] = exit; string(exit) == "null" { // it was ended
			out["exit_code"] = json.RawMessage("143")
		}
	}
	raw, err := json.Marshal(metadata)
	if err != nil {
		return nil
	}
	out["metadata"] = raw
	return out
}

// progress adds what a command has printed since the update before: opencode
// sends all of it each time.
func (c *call) progress(u *toolUpdate, set map[string]any) {
	now := acp.ToolText(u.Content)
	if u.Status == "failed" && c.shown != "" { // what went wrong replaces what was printed
		now = strings.TrimSuffix(c.shown, "\n") + "\n" + now
		set["content"] = []any{acp.ToolContent(now)}
	}
	if now == "" || len(now) >= maxInput {
		return
	}
	fresh := added(c.shown, now)
	c.shown = now
	if fresh == "" {
		return
	}
	set["_meta"] = acp.LiveOutputMeta(fresh)
}

package sessions

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/acp"
)

// ExportJSON writes a session as one JSON object: "session" is its Info,
// "records" are all records as they are stored. A line that is not JSON, which a
// crash of the machine may leave, is there as a string. One record is held at a
// time.
func (s *Store) ExportJSON(ctx context.Context, id acp.SessionID, out io.Writer) error {
	info, err := s.Info(ctx, id)
	if err != nil {
		return err
	}
	head, err := json.MarshalIndent(info, "  ", "  ")
	if err != nil {
		return fmt.Errorf("exporting session %s: %w", id, err)
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "{\n  \"session\": %s,\n  \"records\": [", head)
	between := "\n    "
	for r, err := range s.Entries(ctx, id) {
		if err != nil {
			return err
		}
		line := []byte(r.Raw)
		if !json.Valid(line) {
			line, _ = json.Marshal(string(line)) // a string always encodes
		}
		fmt.Fprintf(w, "%s%s", between, line)
		between = ",\n    "
	}
	fmt.Fprint(w, "\n  ]\n}\n")
	return w.Flush()
}

// ExportMarkdown writes what was said and done in a session for people to read:
// prompts, answers, thoughts, tool calls with the text and the differences they
// showed, summaries and notices. Text of others is fenced or indented, so that it
// stays what it is. One record is held at a time, and a tool call until it ends.
func (s *Store) ExportMarkdown(ctx context.Context, id acp.SessionID, out io.Writer) error {
	info, err := s.Info(ctx, id)
	if err != nil {
		return err
	}
	w := &markdown{w: bufio.NewWriter(out), calls: map[string]*shownCall{}}
	w.begin(&info)
	for r, err := range s.Entries(ctx, id) {
		if err != nil {
			return err
		}
		w.record(&r)
	}
	w.endCalls()
	w.part("")
	return w.w.Flush()
}

// markdown writes a session part by part.
type markdown struct {
	w      *bufio.Writer
	agent  string
	last   string // the part that is being written
	turn   string
	calls  map[string]*shownCall // of the turn, that have not ended
	quoted bool                  // the line that is being written has its quote mark
}

type shownCall struct {
	toolCall
	content json.RawMessage
}

func (m *markdown) begin(i *Info) {
	m.agent = i.Agent
	title := i.ShownTitle()
	if title == "" {
		title = "Session " + string(i.ID)
	}
	fmt.Fprintf(m.w, "# %s\n\n", title)
	fmt.Fprintf(m.w, "- Session: `%s`\n- Directory: %s\n- Agent: %s\n- Began: %s\n- Last used: %s\n", i.ID, codeSpan(i.WorkingPath), i.Agent, i.CreatedAt.Format(time.RFC3339), i.UpdatedAt.Format(time.RFC3339))
	if i.ForkedFrom != "" {
		fmt.Fprintf(m.w, "- Forked from: `%s`\n", i.ForkedFrom)
	}
}

// part ends what is being written unless it is of the same kind.
func (m *markdown) part(kind string) bool {
	if m.last == kind && kind != "" {
		return false
	}
	if m.last != "" {
		fmt.Fprint(m.w, "\n")
	}
	m.last, m.quoted = kind, false
	return true
}

func (m *markdown) record(r *Record) {
	if r.TurnID != "" && r.TurnID != m.turn {
		m.endCalls()
		m.turn = r.TurnID
	}
	switch b := r.Body.(type) {
	case Message:
		m.message(b)
	case Update:
		for _, u := range b.shown() {
			m.update(u)
		}
	case AgentEvent:
		if b.Event == AgentStarted && b.Agent != "" && b.Agent != m.agent {
			m.agent = b.Agent
			m.note("From here on " + b.Agent + " answers.")
		}
	case Compaction:
		m.note("For the agent, earlier messages are summed up from here on:\n\n" + b.Summary)
	case Prune:
		m.note("For the agent, the conversation begins anew; earlier messages were pruned.")
	case Notice:
		m.note(b.Text)
	case Network:
		m.note(b.sentence())
	case Changes:
		m.changes(b)
	case TurnEvent:
		if b.Event == TurnEnd && (b.Error != "" || b.StopReason != acp.StopEndTurn) {
			m.note(strings.TrimSpace("The turn ended: " + string(b.StopReason) + " " + b.Error))
		}
	}
}

func (m *markdown) message(b Message) {
	m.part("message " + string(b.Role))
	m.last = "" // each is one of its own
	name := "You"
	switch b.Role {
	case RoleAssistant:
		name = m.agent
	case RoleSystem:
		name = "System"
	}
	fmt.Fprintf(m.w, "\n## %s\n\n%s\n", name, strings.TrimRight(b.Content, "\n"))
}

func (m *markdown) note(text string) {
	m.part("")
	fmt.Fprint(m.w, "\n")
	for line := range markdownLines(text) {
		fmt.Fprintf(m.w, "> %s\n", strings.TrimRight(line, "\n"))
	}
}

// sentence is what was decided, in words.
func (n Network) sentence() string {
	what := "Connections to other hosts"
	if n.Host != "" {
		what = "Connections to " + net.JoinHostPort(n.Host, strconv.Itoa(n.Port))
	}
	if n.Allowed {
		return fmt.Sprintf("%s were allowed (%s), %d so far.", what, n.By, n.Times)
	}
	return fmt.Sprintf("%s were refused (%s), %d so far.", what, n.Reason, n.Times)
}

func (m *markdown) changes(c Changes) {
	if len(c.Paths) == 0 {
		return
	}
	m.part("")
	fmt.Fprint(m.w, "\nFiles that differ after this turn:\n\n")
	for _, p := range c.Paths {
		fmt.Fprintf(m.w, "- %s: %s\n", p.Change, codeSpan(p.Path))
	}
	if c.Omitted > 0 {
		fmt.Fprintf(m.w, "- and %d more\n", c.Omitted)
	}
}

func (m *markdown) update(raw json.RawMessage) {
	var u struct {
		SessionUpdate string          `json:"sessionUpdate"`
		Content       json.RawMessage `json:"content"`
		ToolCallID    string          `json:"toolCallId"`
		Entries       []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"entries"`
		toolCall
	}
	if json.Unmarshal(raw, &u) != nil {
		return
	}
	switch u.SessionUpdate {
	case acp.AgentMessageChunk:
		if m.part("answer") {
			fmt.Fprintf(m.w, "\n## %s\n\n", m.agent)
		}
		fmt.Fprint(m.w, acp.ParseContentBlock(acp.ContentBlock(u.Content)).Text)
	case acp.AgentThoughtChunk:
		if m.part("thought") {
			fmt.Fprint(m.w, "\n")
		}
		m.quote(acp.ParseContentBlock(acp.ContentBlock(u.Content)).Text)
	case "plan":
		m.part("")
		fmt.Fprint(m.w, "\nPlan:\n\n")
		for _, e := range u.Entries {
			fmt.Fprintf(m.w, "- (%s) %s\n", oneLine(e.Status), oneLine(e.Content))
		}
	case "tool_call", "tool_call_update":
		m.call(u.ToolCallID, u.toolCall, u.Content)
	}
}

// quote writes pieces of text as a quotation.
func (m *markdown) quote(text string) {
	for line := range markdownLines(text) {
		if !m.quoted {
			fmt.Fprint(m.w, "> ")
		}
		fmt.Fprint(m.w, line)
		m.quoted = !strings.HasSuffix(line, "\n")
	}
}

func (m *markdown) call(id string, c toolCall, content json.RawMessage) {
	call := m.calls[id]
	if call == nil {
		call = &shownCall{}
		m.calls[id] = call
	}
	call.merge(c)
	if len(content) > 0 && string(content) != "null" {
		call.content = content
	}
	if call.Status == "completed" || call.Status == "failed" {
		delete(m.calls, id)
		m.showCall(call)
	}
}

// endCalls shows the calls that never ended: a crash cut them short.
func (m *markdown) endCalls() {
	for _, c := range m.calls {
		m.showCall(c)
	}
	clear(m.calls)
}

// maxShown is how much of the text of a tool call is exported, in bytes.
const maxShown = 64 << 10

func (m *markdown) showCall(c *shownCall) {
	m.part("")
	fmt.Fprintf(m.w, "\n- %s\n", c.line())
	var content []struct {
		Type    string           `json:"type"`
		Content acp.ContentBlock `json:"content"`
		Path    string           `json:"path"`
		OldText string           `json:"oldText"`
		NewText string           `json:"newText"`
	}
	_ = json.Unmarshal(c.content, &content) // of another shape: nothing to show
	for _, part := range content {
		switch part.Type {
		case "diff":
			fmt.Fprintf(m.w, "\n  %s\n", codeSpan(part.Path))
			m.fenced("diff", lineDiff(part.OldText, part.NewText))
		case "content":
			if text := acp.ParseContentBlock(part.Content).Text; strings.TrimSpace(text) != "" {
				m.fenced("", text)
			}
		}
	}
}

// lineEnds are Markdown's, which ends a line at a carriage return, too.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// markdownLines are the lines of a text as readers of Markdown see them: each of them has
// to be quoted or indented.
func markdownLines(text string) iter.Seq[string] { return strings.Lines(lineEnds.Replace(text)) }

// codeSpan is a path as code, escaped when it would not stay on its line, or in its marks.
func codeSpan(path string) string {
	if strings.ContainsAny(path, "`\r\n") {
		path = strings.ReplaceAll(strconv.Quote(path), "`", `\x60`)
	}
	return "`" + path + "`"
}

// fenced writes text in a fence that is longer than any in it.
func (m *markdown) fenced(language, text string) {
	if len(text) > maxShown {
		text = cutAt(text, maxShown) + "\n… (cut here; the JSON export has all of it)"
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(m.w, "\n  %s%s\n", fence, language)
	for line := range markdownLines(text) {
		fmt.Fprintf(m.w, "  %s\n", strings.TrimRight(line, "\n"))
	}
	fmt.Fprintf(m.w, "  %s\n", fence)
}

// lineDiff is what differs between two texts, from the first line that does to
// the last one.
func lineDiff(before, after string) string {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	start, end := 0, 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var out strings.Builder
	for _, line := range a[start : len(a)-end] {
		if line != "" {
			out.WriteString("-" + strings.TrimRight(line, "\n") + "\n")
		}
	}
	for _, line := range b[start : len(b)-end] {
		if line != "" {
			out.WriteString("+" + strings.TrimRight(line, "\n") + "\n")
		}
	}
	return out.String()
}

package orchestrator

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/team/chat"
	"gander.dev/gander/sessions"
)

// view holds the work of an agent on a task, as far as it was shown.
type view struct {
	// mu guards what follows.
	mu    sync.Mutex
	news  bool // since the person was shown the last time
	said  strings.Builder
	all   int // bytes that it said before its last tool call
	calls []shownCall
	plan  []planEntry
	diffs []diff
	asked map[string]bool // the calls that the person was asked about
}

type shownCall struct{ id, title, kind, status string }

type planEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"`
	Status   string `json:"status"`
}

type diff struct {
	Path string  `json:"path"`
	Old  *string `json:"oldText"`
	New  string  `json:"newText"`
}

// The bounds of a view.
const (
	maxSaid      = 1 << 20 // bytes of what is kept of an answer, less than a file may have
	maxLiveCalls = 12
	maxLiveSaid  = 1 << 10
	maxDiffs     = 30
	maxDiffBytes = 512 << 10
	maxCalls     = 1000
	liveEvery    = 500 * time.Millisecond
)

// see takes an update of the agent's.
func (j *job) see(raw json.RawMessage) {
	v := &j.view
	var u struct {
		Kind       string          `json:"sessionUpdate"`
		ToolCallID string          `json:"toolCallId"`
		Title      string          `json:"title"`
		ToolKind   string          `json:"kind"`
		Status     string          `json:"status"`
		Severity   string          `json:"severity"`
		Content    json.RawMessage `json:"content"`
		Entries    []planEntry     `json:"entries"`
	}
	if json.Unmarshal(raw, &u) != nil {
		return
	}
	switch u.Kind {
	case "notice":
		j.r.s.p.Notice(u.Severity, j.a.Target+": "+u.Title)
		return
	case acp.AgentMessageChunk:
		v.say(acp.ParseContentBlock(u.Content).Text)
	case "tool_call", "tool_call_update":
		final := v.call(shownCall{u.ToolCallID, u.Title, u.ToolKind, u.Status}, u.Kind == "tool_call", u.Content)
		if final && !j.child {
			j.r.s.send(acp.ToolCallFinal(j.call+"-"+u.ToolCallID, u.Status, ""))
		}
	case "plan":
		v.mu.Lock()
		v.plan, v.news = u.Entries, true
		v.mu.Unlock()
	}
}

func (v *view) say(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.news = true; v.said.Len()+len(text) < maxSaid {
		v.said.WriteString(text)
	}
}

// call takes an update of a tool call. final says that one has ended about which the person
// was asked.
func (v *view) call(c shownCall, first bool, content json.RawMessage) (final bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.news = true
	i := slices.IndexFunc(v.calls, func(k shownCall) bool { return k.id == c.id })
	switch {
	case i >= 0:
		k := &v.calls[i]
		if c.title != "" {
			k.title = c.title
		}
		if c.status != "" {
			k.status = c.status
		}
	case len(v.calls) < maxCalls:
		v.calls = append(v.calls, c)
	}
	if first && v.said.Len() > v.all && !strings.HasPrefix(c.id, "gander-") { // not a call of gander's own
		v.said.WriteString("\n\n")
		v.all = v.said.Len() // what comes from here on may be the answer
	}
	v.learn(content)
	final = v.asked[c.id] && (c.status == "completed" || c.status == "failed")
	if final {
		delete(v.asked, c.id)
	}
	return final
}

// learn takes the differences of a call's content; of one file the first text before and the
// last one after count. mu is held.
func (v *view) learn(content json.RawMessage) {
	var items []struct {
		Type string `json:"type"`
		diff
	}
	if json.Unmarshal(content, &items) != nil {
		return
	}
	for _, item := range items {
		if item.Type != "diff" || item.Path == "" {
			continue
		}
		i := slices.IndexFunc(v.diffs, func(d diff) bool { return d.Path == item.Path })
		switch {
		case i >= 0:
			v.diffs[i].New = item.New
		case len(v.diffs) < maxDiffs:
			v.diffs = append(v.diffs, item.diff)
		}
	}
}

// answer returns the words of the agent behind its last tool call, or else all of them.
func (v *view) answer() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := v.said.String()
	if last := strings.TrimSpace(text[v.all:]); last != "" {
		return last
	}
	return strings.TrimSpace(text)
}

// asks shows a call that the person is asked about under the agent's name, and returns it as
// the question has it.
func (j *job) asks(call json.RawMessage) json.RawMessage {
	v := &j.view
	id := stringOf(acp.Member(call, "toolCallId"))
	title := stringOf(acp.Member(call, "title"))
	v.mu.Lock()
	if i := slices.IndexFunc(v.calls, func(k shownCall) bool { return k.id == id }); i >= 0 && title == "" {
		title = v.calls[i].title
	}
	if v.asked == nil {
		v.asked = map[string]bool{}
	}
	shown := v.asked[id]
	v.asked[id] = true
	v.mu.Unlock()
	mine := map[string]any{"toolCallId": j.call + "-" + id, "title": fmt.Sprintf("%s · %s: %s", j.a.Target, j.thread.task, title), "status": "pending"}
	call = acp.WithFields(call, mine)
	if !shown {
		j.r.s.send(acp.WithFields(call, map[string]any{"sessionUpdate": "tool_call"}))
	}
	return call
}

// live is the work so far in words.
func (v *view) live() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.news {
		return ""
	}
	v.news = false
	var b strings.Builder
	for _, e := range v.plan {
		mark := map[string]string{"completed": "x", "in_progress": "~"}[e.Status]
		if mark == "" {
			mark = " "
		}
		fmt.Fprintf(&b, "[%s] %s\n", mark, chat.Cut(e.Content, maxTitle))
	}
	calls := v.calls[max(0, len(v.calls)-maxLiveCalls):]
	if n := len(v.calls) - len(calls); n > 0 {
		fmt.Fprintf(&b, "… %d calls before\n", n)
	}
	for _, c := range calls {
		status := c.status
		if status == "" {
			status = "pending"
		}
		fmt.Fprintf(&b, "- %s (%s)\n", chat.Cut(c.title, maxTitle), status)
	}
	if said := v.said.String(); said != "" {
		fmt.Fprintf(&b, "\n%s", strings.ToValidUTF8(said[max(0, len(said)-maxLiveSaid):], ""))
	}
	return b.String()
}

// showCall shows the tool call that stands for the task.
func (j *job) showCall() {
	about := map[string]any{"agent": j.a.Target, "task": j.thread.task}
	j.r.s.send(update("tool_call", map[string]any{
		"toolCallId": j.call, "title": j.title, "kind": "think", "status": "in_progress", "rawInput": j.a.raw,
		"_meta": map[string]any{"gander.dev": map[string]any{"delegate": about}},
	}))
}

// showLive shows the work as it goes on until over is closed. The editor sees that of a child
// session there.
func (j *job) showLive(over <-chan struct{}) {
	if j.child {
		return
	}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		if text := j.view.live(); text != "" {
			j.r.s.p.Live(acp.ToolCallProgress(j.call, "", []json.RawMessage{acp.ToolContent(text)}))
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// show shows the end of a task: what the agent answered, and what it changed.
func (r *run) show(j *job, o outcome, answer string, changed *sessions.Changes, how string, failed bool) {
	switch {
	case j.child: // which has shown it
		return
	case r.s.p.Children: // it came to no child session
		j.showCall()
	}
	status := "completed"
	if failed {
		status = "failed"
		answer = strings.TrimSpace(how + "\n\n" + answer)
	}
	content := []any{acp.ToolContent(chat.Cut(answer, maxShownAnswer))}
	locations := []map[string]string{} // the schema wants a list, also of none
	var paths []string
	if changed != nil {
		for _, p := range changed.Paths {
			paths = append(paths, filepath.Join(r.s.p.WorkingDir, filepath.FromSlash(p.Path)))
		}
	}
	j.view.mu.Lock()
	size := 0
	for _, d := range j.view.diffs {
		size += len(d.New)
		if d.Old != nil {
			size += len(*d.Old)
		}
		if slices.Contains(paths, d.Path) && size <= maxDiffBytes {
			content = append(content, map[string]any{"type": "diff", "path": d.Path, "oldText": d.Old, "newText": d.New})
		}
	}
	j.view.mu.Unlock()
	for _, p := range paths[:min(len(paths), maxDiffs)] {
		locations = append(locations, map[string]string{"path": p})
	}
	out := map[string]any{"session": j.thread.id, "ended": how, "changed": j.sayChanged(changed)}
	if o.resp != nil {
		out["stopReason"] = o.resp.StopReason
		if len(o.resp.Usage) > 0 {
			out["usage"] = o.resp.Usage
		}
	}
	r.s.send(update("tool_call_update", map[string]any{"toolCallId": j.call, "status": status, "content": content, "locations": locations, "rawOutput": out}))
}

// plan lists the tasks of a run, and those to come, for the person.
type plan struct {
	entries []planEntry
	next    []string
}

func (p *plan) add(title string, remaining []string) {
	p.entries = append(p.entries, planEntry{title, "medium", "in_progress"})
	if remaining != nil {
		p.next = remaining[:min(len(remaining), maxDiffs)]
	}
}

func (p *plan) end(title string, failed bool) {
	for i := range p.entries {
		if e := &p.entries[i]; e.Content == title && e.Status == "in_progress" {
			e.Status = "completed"
			if failed {
				e.Content = "failed: " + e.Content
			}
			return
		}
	}
}

// showPlan shows the plan.
func (r *run) showPlan() {
	entries := slices.Clone(r.plan.entries)
	for _, text := range r.plan.next {
		entries = append(entries, planEntry{chat.Cut(text, maxTitle), "medium", "pending"})
	}
	r.s.send(update("plan", map[string]any{"entries": entries}))
}

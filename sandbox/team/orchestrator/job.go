package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/team/chat"
	"gander.dev/gander/sessions"
)

// job is a task that an agent works on.
type job struct {
	r       *run
	d       *decision
	i       int // of the action in the decision
	a       *action
	m       *Member
	n       int    // counts the tasks of the run
	call    string // the id of the tool call that shows it
	title   string
	access  string
	policy  string // a note about it
	thread  *thread
	prompt  []acp.ContentBlock
	request string
	started time.Time
	view    view
	ctx     context.Context // ends when the task, or the run, is cancelled
	cancel  context.CancelFunc
	child   bool // the editor has the task as a child session
}

// outcome holds the end of a task.
type outcome struct {
	resp *acp.PromptResponse
	err  error
}

// member finds an agent that can get tasks; nil when there is none of that name.
func (r *run) member(name string) *Member {
	for i := range r.members {
		if r.members[i].Name == name {
			return &r.members[i]
		}
	}
	return nil
}

// names are the agents that can get tasks now.
func (r *run) names() string {
	var names []string
	for _, m := range r.members {
		names = append(names, m.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "(none)")
}

// reads reports whether a task only reads the project.
func (r *run) reads(a *action) bool {
	m := r.member(a.Target)
	return a.Access == accessRead || r.mode == ModePlan || m != nil && m.Access == accessRead || r.s.p.Chosen()["access"] == accessRead
}

// begin prepares a task and shows it; the text says why there is none.
func (r *run) begin(d *decision, i int) (*job, string) {
	a := d.actions[i]
	j := &job{r: r, d: d, i: i, a: a, m: r.member(a.Target), access: accessWrite, started: time.Now()}
	if r.reads(a) {
		j.access = accessRead
	}
	err := r.mayDelegate(j)
	if err == nil {
		err = j.choose()
	}
	if err == nil {
		err = j.handOver()
	}
	if err != nil {
		r.step(d, i, a, j.facts(outcome{err: err}))
		return nil, "This was not done: " + err.Error()
	}
	r.delegations++
	j.n = r.delegations
	j.call = fmt.Sprintf("delegate-%s-%d", r.id, j.n)
	line, _, _ := strings.Cut(strings.TrimSpace(a.Message), "\n")
	j.title = fmt.Sprintf("%s · %s: %s", a.Target, j.thread.task, chat.Cut(line, maxTitle))
	j.ctx, j.cancel = context.WithCancel(r.ctx)
	r.plan.add(j.title, a.Remaining)
	r.showPlan()
	if !r.s.p.Children {
		j.showCall()
	}
	r.step(d, i, a, j.facts(outcome{}))
	return j, ""
}

const maxTitle = 80

// mayDelegate says why an agent gets no task.
func (r *run) mayDelegate(j *job) error {
	if j.m == nil {
		for _, m := range r.s.a.o.Members() {
			if m.Name != j.a.Target {
				continue
			}
			if err := m.Check(r.ctx); err != nil {
				return fmt.Errorf("the agent %s is not ready: %w; ready are %s", m.Name, err, r.names())
			}
		}
		return fmt.Errorf("there is no agent %q; choose one of %s", j.a.Target, r.names())
	}
	if r.delegations >= r.limits.Delegations {
		r.over = fmt.Sprintf("the limit of %d tasks is reached (orchestrator.limits.delegations)", r.limits.Delegations)
		return errors.New(r.over)
	}
	return nil
}

// choose finds the thread of the task, or makes a new one.
func (j *job) choose() error {
	o := j.r.s.office
	task := cmp.Or(j.a.TaskKey, fmt.Sprintf("%s-step-%02d", j.a.Target, j.r.delegations+1))
	if _, err := o.connect(j.r.ctx); err != nil {
		return fmt.Errorf("the agents cannot be reached: %w", err)
	}
	found := o.find(j.a.Target, task)
	switch {
	case found != nil && j.a.Policy != policyNew:
		j.thread = found
		return nil
	case j.a.Policy == policyReuse:
		j.policy = "There was no such thread to reuse; a new one was begun."
	}
	j.thread = &thread{agent: j.a.Target, task: task, key: keyOf(j.a.Target, j.r.s.ID(), task)}
	return nil
}

// The bounds of what a task is given of the turn, in bytes.
const (
	maxRequest = 4 << 10
	maxNotes   = 4 << 10
)

// handOver makes the prompt of the task, by its mode. The agent gets no path of gander's:
// what is to be read comes with the prompt. The task comes last: it counts.
func (j *job) handOver() error {
	a := j.a
	j.request = a.Message
	if a.Mode != modeDirect {
		j.request = j.sections()
	}
	j.prompt = []acp.ContentBlock{acp.TextBlock(j.request)}
	if a.Mode == modeDirect {
		return nil
	}
	name := j.file("to")
	if err := j.r.files.Write(name, []byte(j.request)); err != nil {
		return err
	}
	if a.Mode == modeArtifacts {
		j.prompt = []acp.ContentBlock{acp.TextBlock(fmt.Sprintf("Your task is in the attached file %s: do what it says, and answer with what it asks for.", name)), resource(name, j.request)}
	}
	for _, path := range a.Attach {
		if path == "prompt" {
			j.prompt = append(j.prompt, j.r.attached...)
			continue
		}
		name, ok := strings.CutPrefix(path, runPrefix)
		if !ok {
			return fmt.Errorf("attach: %q is neither an artifact of this run (run/...) nor \"prompt\"", path)
		}
		content, err := j.r.files.Read(name)
		if err != nil {
			return fmt.Errorf("attach: %w", err)
		}
		j.prompt = append(j.prompt, resource(name, string(content)))
	}
	return nil
}

func (j *job) sections() string {
	var parts []string
	section := func(name, text string) {
		if text = strings.TrimSpace(text); text != "" {
			parts = append(parts, "# "+name+"\n\n"+text)
		}
	}
	section("The person's request", chat.Cut(j.r.request, maxRequest))
	if notes := strings.Join(j.r.notes, "\n- "); notes != "" {
		section("Notes", chat.Cut("- "+notes, maxNotes))
	}
	section("Expected output", j.a.Expected)
	section("Task", j.a.Message)
	return strings.Join(parts, "\n\n")
}

// file is the name of what was given to the agent, or came from it.
func (j *job) file(way string) string {
	return fmt.Sprintf("step-%02d-%d-%s-%s.md", j.r.steps, j.i+1, way, j.a.Target)
}

func resource(name, text string) acp.ContentBlock {
	raw, _ := json.Marshal(map[string]any{"type": "resource", "resource": map[string]string{"uri": "artifact:" + name, "mimeType": "text/markdown", "text": text}})
	return raw // strings always marshal
}

// work has the agent do the task, and returns when nothing of that runs any more.
func (j *job) work() outcome {
	s := j.r.s
	team, err := s.office.connect(j.r.ctx)
	if err == nil {
		err = s.office.enter(j.r.ctx, team, j.thread, j.access)
	}
	if err != nil {
		return outcome{err: err}
	}
	j.r.step(j.d, j.i, j.a, j.facts(outcome{})) // with the session, which a trace that is cut short has to name
	s.mu.Lock()
	s.working[j.thread.id] = j
	s.mu.Unlock()
	if s.p.Children {
		j.announce()
	}
	over := make(chan struct{})
	shown := make(chan struct{})
	go func() { defer close(shown); j.showLive(over) }()
	o := outcome{}
	if o.err = j.settle(team); o.err == nil {
		o.resp, o.err = s.prompt(j.ctx, team, j.thread.id, j.prompt)
	}
	close(over)
	<-shown
	s.mu.Lock()
	delete(s.working, j.thread.id)
	s.mu.Unlock()
	s.office.leave(s.Context(), team, j.thread)
	if j.child {
		j.conclude(o)
	}
	return o
}

// settle gives the session what the person has chosen.
func (j *job) settle(team *Team) error {
	want := j.r.s.p.Chosen()
	want["access"] = j.access
	if want["mode"] = j.m.Mode; j.r.mode == ModeAsk && j.m.AskingMode != "" {
		want["mode"] = j.m.AskingMode
	}
	for _, id := range []string{"sandbox", "tools", "access", "permissions", "mode"} {
		i := slices.IndexFunc(j.thread.options, func(o acp.ConfigOption) bool { return o.ID == id })
		if want[id] == "" || i < 0 || stringOf(j.thread.options[i].CurrentValue) == want[id] {
			continue
		}
		value, _ := json.Marshal(want[id]) // a string always marshals
		set, err := team.SetConfigOption(j.r.ctx, &acp.SetConfigOptionRequest{SessionID: j.thread.id, ConfigID: id, Value: value})
		if err != nil {
			return fmt.Errorf("the agent's session did not take the %s %q: %w", id, want[id], err)
		}
		j.thread.options = set.ConfigOptions
	}
	return nil
}

// cancelAgain is the time between two cancels: one before its prompt is without effect.
const cancelAgain = 250 * time.Millisecond

// prompt prompts an agent. When ctx ends it is cancelled, and its end is waited for.
func (s *session) prompt(ctx context.Context, team *Team, id acp.SessionID, prompt []acp.ContentBlock) (*acp.PromptResponse, error) {
	waiting, done := context.WithCancel(s.Context())
	defer done()
	defer context.AfterFunc(ctx, func() {
		again := time.NewTicker(cancelAgain)
		defer again.Stop()
		for {
			_ = team.Cancel(id)
			select {
			case <-waiting.Done():
				return
			case <-again.C:
			}
		}
	})()
	return team.Prompt(waiting, &acp.PromptRequest{SessionID: id, Prompt: prompt})
}

// The bounds of an answer: for the planner, for the person, and as a file, in bytes.
const (
	maxAnswer      = 4 << 10
	maxShownAnswer = 16 << 10
)

// finish shows what came of a task, and tells the planner. An error ends the run: the
// person's policy has stopped the agent.
func (r *run) finish(j *job, o outcome) (string, error) {
	answer, changed := j.view.answer(), changesIn(o.resp)
	var lines []string
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	line("agent: %s, task: %s", j.a.Target, j.thread.task)
	if j.policy != "" {
		line("%s", j.policy)
	}
	how, failed := j.ended(o)
	line("ended: %s", how)
	line("changed: %s", j.sayChanged(changed))
	name := j.file("from")
	if j.a.Mode != modeDirect && answer != "" {
		if err := r.files.Write(name, []byte(answer)); err != nil {
			line("its answer could not be kept: %v", err)
			name = ""
		}
	} else {
		name = ""
	}
	lines = append(lines, j.tellAnswer(answer, name))
	j.thread.stop = acp.StopEndTurn
	if o.resp != nil {
		j.thread.stop = o.resp.StopReason
		r.spend(usageIn(o.resp.Usage))
		r.showUse()
	} else if o.err != nil {
		j.thread.stop = ""
	}
	j.thread.last = firstLine(answer)
	r.show(j, o, answer, changed, how, failed)
	j.cancel()
	r.plan.end(j.title, failed)
	r.showPlan()
	r.note("%s · %s: %s; changed: %s", j.a.Target, j.thread.task, how, j.sayChanged(changed))
	r.step(j.d, j.i, j.a, j.facts(o))
	j.a.outcome = strings.Join([]string{how, j.sayChanged(changed), answer}, "\n")
	if why := stoppedByPolicy(o); why != "" {
		return "", &acp.Error{Code: acp.CodeInternalError, Message: j.a.Target + ": " + why, Data: json.RawMessage(`{"refusedBy":"policy"}`)}
	}
	return strings.Join(lines, "\n"), nil
}

// tellAnswer is the answer for the planner.
func (j *job) tellAnswer(answer, name string) string {
	switch {
	case answer == "":
		return "answer: (none)"
	case j.a.Mode == modeArtifacts && name != "":
		return fmt.Sprintf("answer: %s\nall of it: %s%s", firstLine(answer), runPrefix, name)
	case len(answer) > maxAnswer && name != "":
		return fmt.Sprintf("answer:\n%s\nall of it: %s%s", chat.Cut(answer, maxAnswer), runPrefix, name)
	case name != "":
		return fmt.Sprintf("answer:\n%s\nkept as: %s%s", answer, runPrefix, name)
	}
	return "answer:\n" + chat.Cut(answer, maxAnswer)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return chat.Cut(line, maxStale)
}

// ended says how a task ended.
func (j *job) ended(o outcome) (how string, failed bool) {
	switch {
	case o.err != nil && context.Cause(j.r.ctx) == errTime:
		return "cut short, as the run's time is over", true
	case o.err != nil:
		return "failed: " + chat.Cut(messageOf(o.err), 2<<10), true
	case o.resp.StopReason == acp.StopEndTurn:
		return "done", false
	case o.resp.StopReason == acp.StopRefusal:
		return "the model refused to answer", true
	case o.resp.StopReason == acp.StopCancelled && stoppedByPolicy(o) != "":
		return "stopped by the person's policy", true
	case o.resp.StopReason == acp.StopCancelled && j.r.ctx.Err() == nil:
		return "cancelled by the person", true
	}
	return "ended early: " + string(o.resp.StopReason), true
}

// messageOf is an error of the protocol without its code.
func messageOf(err error) string {
	if e, ok := errors.AsType[*acp.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// answerMeta holds gander's member of the _meta of a response.
type answerMeta struct {
	Turn      string            `json:"turn"`
	Changes   *sessions.Changes `json:"changes"`
	StoppedBy string            `json:"stoppedBy"`
	Why       string            `json:"why"`
}

func metaOf(resp *acp.PromptResponse) answerMeta {
	if resp == nil {
		return answerMeta{}
	}
	var m map[string]answerMeta
	_ = json.Unmarshal(resp.Meta, &m) // without it nothing is known
	return m["gander.dev"]
}

func changesIn(resp *acp.PromptResponse) *sessions.Changes { return metaOf(resp).Changes }

// stoppedByPolicy returns the reason for which the person's policy has stopped an agent; empty when it has not.
func stoppedByPolicy(o outcome) string {
	if m := metaOf(o.resp); m.StoppedBy == "policy" {
		return m.Why
	}
	return ""
}

// usageIn reads what an agent says it has used.
func usageIn(raw json.RawMessage) (in, out, total int64) {
	var u struct {
		Input  int64 `json:"inputTokens"`
		Output int64 `json:"outputTokens"`
		Total  int64 `json:"totalTokens"`
	}
	_ = json.Unmarshal(raw, &u) // an agent need not say it
	return u.Input, u.Output, u.Total
}

// maxNamed bounds the changed files that the planner is told of.
const maxNamed = 20

// sayChanged says which files a task has changed.
func (j *job) sayChanged(c *sessions.Changes) string {
	if c == nil || len(c.Paths) == 0 && c.Note == "" {
		if j.access == accessRead {
			return "nothing (read only)"
		}
		return "nothing"
	}
	var parts []string
	for i, p := range c.Paths {
		if i == maxNamed {
			break
		}
		parts = append(parts, p.Change+" "+p.Path)
	}
	text := cmp.Or(strings.Join(parts, ", "), "no file")
	if more := len(c.Paths) + c.Omitted - len(parts); more > 0 {
		text += fmt.Sprintf(" (+%d more)", more)
	}
	if c.Note != "" {
		text += "; " + c.Note
	}
	if len(c.NotCompared) > 0 {
		text += "; not compared: " + strings.Join(c.NotCompared, ", ")
	}
	return text
}

// facts returns the task for the trace.
func (j *job) facts(o outcome) sessions.StepFacts {
	c := &sessions.AgentCall{
		TargetAgentID: j.a.Target, TaskKey: j.a.TaskKey, SessionPolicy: j.a.Policy, Mode: j.a.Mode, Access: j.access, Request: j.request,
	}
	if j.thread != nil {
		c.TaskKey, c.SessionKey, c.SessionID = j.thread.task, j.thread.key, j.thread.id
	}
	if o.err != nil {
		c.Code, c.Response = 1, messageOf(o.err)
	}
	if o.resp != nil {
		c.Response, c.StopReason, c.Usage = j.view.answer(), o.resp.StopReason, o.resp.Usage
		m := metaOf(o.resp)
		c.TurnID, c.WorkingTreeEffect = m.Turn, m.Changes
		if o.resp.StopReason != acp.StopEndTurn {
			c.Code = 1
		}
	}
	return sessions.StepFacts{AgentCall: c, DurationMS: time.Since(j.started).Milliseconds()}
}

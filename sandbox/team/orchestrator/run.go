package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/agents/acpagent"
	"gander.dev/gander/sandbox/team/artifacts"
	"gander.dev/gander/sandbox/team/chat"
	"gander.dev/gander/sessions"
)

// run is a turn of the orchestrator.
type run struct {
	s            *session
	id           string          // the turn's
	asking       context.Context // ends when the turn is cancelled
	ctx          context.Context // ends when the time is over, too
	clock        *clock
	limits       Limits
	model        string
	planner      string // the agent that decides in the place of the model
	instructions string
	mode         string
	request      string // what the person said
	attached     []acp.ContentBlock
	members      []Member
	files        *artifacts.Folder // of this run
	own          *artifacts.Folder // that stay

	steps, calls, delegations int
	invalid                   int    // answers in a row in which nothing could be done
	over                      string // the limit that was reached in between
	repeats                   repeats
	notes                     []string

	// mu guards what follows.
	mu   sync.Mutex
	used tokens
	plan plan
}

// newRun begins a turn.
func (s *session) newRun(ctx context.Context, prompt []acp.ContentBlock) *run {
	settings, _ := s.a.o.Settings() // the model call says what is wrong
	message := acpagent.MessageOf(prompt)
	r := &run{
		s: s, id: s.p.Turn(), asking: ctx, limits: s.a.o.Limits(), instructions: settings.Instructions,
		model: s.Model(), mode: s.currentMode(), request: message.Content, members: ready(ctx, s.a.o.Members()), repeats: repeats{},
	}
	if r.planner = settings.Planner; r.planner != "" {
		s.plain = true // an agent has tools of its own
	}
	for _, raw := range prompt {
		if acp.ContentType(raw) != "text" {
			r.attached = append(r.attached, raw)
		}
	}
	r.clock, r.ctx = newClock(ctx, r.limits.Time)
	r.files = artifacts.At(filepath.Join(s.a.o.Artifacts, r.id), string(s.p.Session))
	r.own = artifacts.At(s.a.o.Workspace, "")
	s.talk = append(s.talk, message)
	return r
}

// maxInvalid bounds the answers in a row that have nothing in them that can be done.
const maxInvalid = 3

// work asks the planner and does what it wants until it ends the turn, or a limit does.
func (r *run) work() (*acp.PromptResponse, error) {
	for {
		if why := r.reached(); why != "" {
			return r.stopped(why)
		}
		r.steps++
		d, err := r.decide()
		if err != nil {
			if r.asking.Err() == nil && context.Cause(r.ctx) == errTime {
				continue // which is said as a limit
			}
			return nil, err
		}
		if len(d.actions) == 0 {
			r.step(d, 0, &action{Type: actRespond, Message: d.text}, sessions.StepFacts{})
			return r.ended(), nil
		}
		final, err := r.carryOut(d)
		if err != nil || r.asking.Err() != nil {
			return nil, err
		}
		if final != nil {
			r.say(cmp.Or(strings.TrimSpace(*final), strings.TrimSpace(d.text), "Completed."))
			return r.ended(), nil
		}
		if r.invalid >= maxInvalid {
			why := fmt.Sprintf("The planner's model gave %d answers in a row that cannot be carried out; the last one: %s", maxInvalid, d.problem())
			r.say("I stop here. " + why + r.noted())
			return nil, acp.Internal(why+". Try again, or choose another model.", nil)
		}
	}
}

// problem returns the problem of the first action that has one.
func (d *decision) problem() string {
	for _, a := range d.actions {
		if a.problem != "" {
			return a.problem
		}
	}
	return ""
}

// say says the last message of the turn.
func (r *run) say(text string) {
	r.s.send(acp.MessageChunk(acp.AgentMessageChunk, r.id+"-final", text))
}

func (r *run) ended() *acp.PromptResponse {
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}
}

// lastTime bounds the planner's last word when a limit is reached.
const lastTime = time.Minute

// stopped ends a turn at a limit: the planner has a last word, without tools.
func (r *run) stopped(why string) (*acp.PromptResponse, error) {
	ctx, done := context.WithTimeout(r.asking, lastTime)
	defer done()
	r.s.p.Notice("warning", "The orchestrator stops: "+why+".")
	text := "I stop here: " + why + "." + r.noted()
	order := chat.Message{Role: "user", Content: "You have to stop now: " + why + ". Say to the person in a few sentences what was done, and what is left."}
	reply, err := r.lastWord(ctx, order)
	if err == nil && strings.TrimSpace(reply) != "" {
		text = reply
	}
	if r.asking.Err() != nil {
		return nil, r.asking.Err()
	}
	r.s.talk = append(r.s.talk, chat.Message{Role: "assistant", Content: text})
	r.say(text)
	return &acp.PromptResponse{StopReason: acp.StopMaxTurnRequests}, nil
}

// lastWord asks for a text; what the model calls nevertheless is not done.
func (r *run) lastWord(ctx context.Context, order chat.Message) (string, error) {
	if r.planner != "" {
		r.s.talk = append(r.s.talk, order)
		said, err := r.askAgent(ctx)
		if a, bad := parse(said); err == nil && bad == nil {
			return a.Message, nil
		}
		return said, err
	}
	q := chat.Request{Model: r.model, Messages: append(r.messages(), order), ToolChoice: "none"}
	if !r.s.plain {
		q.Tools = tools()
	}
	reply, err := r.s.chat.Ask(ctx, q, nil)
	if err != nil {
		return "", err
	}
	r.asked(reply.Usage)
	if a, err := parse(reply.Content); r.s.plain && err == nil {
		return a.Message, nil
	}
	return reply.Content, nil
}

// noted lists the work so far, for a message that no model writes.
func (r *run) noted() string {
	if len(r.notes) == 0 {
		return ""
	}
	return "\n\nWhat was done:\n- " + strings.Join(r.notes, "\n- ")
}

// note takes down a line of what was done, for tasks to come and for the end.
func (r *run) note(format string, args ...any) {
	r.notes = append(r.notes, chat.Cut(fmt.Sprintf(format, args...), maxStale))
}

// carryOut does what a decision says, in its order, but for tasks that only read: those
// that come one after the other are done side by side. final is the message of an action
// that ends the turn.
func (r *run) carryOut(d *decision) (final *string, err error) {
	done := false
	results := make([]string, len(d.actions))
	for i := 0; i < len(d.actions); {
		n := r.together(d.actions[i:])
		if n > 1 {
			err = r.sideBySide(d, i, results[i:i+n])
			done = true
		} else {
			results[i], err = r.do(d, i)
			done = done || d.actions[i].problem == ""
		}
		if a := d.actions[i]; n == 1 && a.problem == "" && a.ends() {
			final = &a.Message
		}
		if err != nil {
			return nil, err
		}
		i += n
	}
	if r.invalid++; done {
		r.invalid = 0
	}
	for i, a := range d.actions {
		r.tell(a, results[i])
	}
	return final, nil
}

// tell gives the planner the result of an action.
func (r *run) tell(a *action, result string) {
	result += "\n\n" + r.standing()
	if r.s.plain {
		r.s.talk = append(r.s.talk, chat.Message{Role: "user", Content: "Result of " + a.Type + ":\n" + result})
		return
	}
	r.s.talk = append(r.s.talk, chat.Message{Role: "tool", ToolCallID: a.ID, Content: result})
}

// do does one action and returns what the planner is told of it. An error ends the turn.
func (r *run) do(d *decision, i int) (string, error) {
	a := d.actions[i]
	if a.problem != "" {
		r.step(d, i, a, sessions.StepFacts{})
		return "This was not done: " + a.problem, nil
	}
	if why := r.repeated(a); why != "" {
		return why, nil
	}
	if a.Rationale != "" && !a.ends() {
		r.s.send(acp.MessageChunk(acp.AgentThoughtChunk, fmt.Sprintf("%s-%d-%d-why", r.id, r.steps, i), a.Rationale+"\n"))
	}
	var result string
	var err error
	switch a.Type {
	case actDelegate:
		var j *job
		if j, result = r.begin(d, i); j != nil {
			result, err = r.finish(j, j.work())
		}
	case actRead:
		result = r.read(d, i)
	case actWrite:
		result = r.write(d, i)
	case actSkill:
		result = r.installSkill(d, i)
	default:
		r.step(d, i, a, sessions.StepFacts{})
		return "The person has read it.", nil
	}
	if a.outcome == "" {
		a.outcome = result
	}
	r.repeats.note(a)
	return result, err
}

// repeated says that an action is not carried out, as it was with the same outcome so often
// before. One more time ends the turn.
func (r *run) repeated(a *action) string {
	n := r.repeats.again(a)
	if a.ends() || r.limits.Repeats <= 0 || n < r.limits.Repeats-1 {
		return ""
	}
	r.repeats[a.fingerprint()].times++
	if n >= r.limits.Repeats {
		r.over = fmt.Sprintf("the same was wanted %d times with the same outcome (orchestrator.limits.repeats)", n+1)
	}
	return fmt.Sprintf("This was not done: you wanted the same %d times before, and it came to the same. Do something else, or finish.", n)
}

// together counts the first actions that are done side by side: tasks that only read, each
// in a thread of its own.
func (r *run) together(all []*action) int {
	threads := map[string]bool{}
	for n, a := range all {
		key := a.Target + "\x00" + a.TaskKey
		if a.Type != actDelegate || a.problem != "" || !r.reads(a) || a.TaskKey != "" && threads[key] {
			return max(n, 1)
		}
		threads[key] = true
	}
	return len(all)
}

// sideBySide gives tasks to agents at the same time, so many as may be.
func (r *run) sideBySide(d *decision, first int, results []string) error {
	jobs := make([]*job, len(results))
	outcomes := make([]outcome, len(results))
	slots := make(chan struct{}, max(r.limits.Parallel, 1))
	var wg sync.WaitGroup
	for i := range results {
		a := d.actions[first+i]
		if results[i] = r.repeated(a); results[i] != "" {
			continue
		}
		if a.Rationale != "" {
			r.s.send(acp.MessageChunk(acp.AgentThoughtChunk, fmt.Sprintf("%s-%d-%d-why", r.id, r.steps, first+i), a.Rationale+"\n"))
		}
		if jobs[i], results[i] = r.begin(d, first+i); jobs[i] == nil {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			outcomes[i] = jobs[i].work()
		})
	}
	wg.Wait()
	var failed error
	for i, j := range jobs {
		if j == nil {
			continue
		}
		var err error
		results[i], err = r.finish(j, outcomes[i])
		r.repeats.note(j.a)
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// step takes down an action for the trace.
func (r *run) step(d *decision, i int, a *action, facts sessions.StepFacts) {
	facts.PlannerStep = r.steps
	if i == 0 {
		facts.Raw = chat.Cut(d.raw, maxRaw)
	}
	about := map[string]any{"rationale": chat.Cut(a.Rationale, maxStale), "type": a.Type}
	if a.problem != "" {
		about["problem"] = a.problem
	}
	if json.Valid(a.raw) && len(a.raw) <= maxRaw {
		about["action"] = a.raw
	}
	facts.Decision, _ = json.Marshal(about) // such a map always encodes
	r.s.p.Step(sessions.Step{Key: fmt.Sprintf("%d-%d", r.steps, i), StepFacts: facts})
}

// maxRaw bounds what a trace has of an answer of the planner, in bytes.
const maxRaw = 15 << 10

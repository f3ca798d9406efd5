package acp

import (
	"path/filepath"
	"strings"
	"time"

	"gander.dev/gander/conformance/harness"
)

func cancelChecks() []Check {
	needs := []need{needModel}
	shell := []need{needShell}
	return []Check{
		{ID: "cancel.idle", Requirements: []int{33}, needs: needs, run: checkCancelIdle, Text: "a cancel with nothing running, or of an unknown session, does nothing, also not to the next prompt"},
		{ID: "cancel.waiting", Requirements: []int{32}, needs: needs, run: checkCancelWaiting, Text: "a cancel while the model is silent is answered with cancelled"},
		{ID: "cancel.streaming", Requirements: []int{32}, needs: needs, run: checkCancelStreaming, Text: "a cancel while the model speaks is answered with cancelled, and the words stop"},
		{ID: "cancel.behind", Requirements: []int{32}, needs: needs, run: checkCancelBehind, Text: "a cancel right behind its prompt is answered with cancelled"},
		{ID: "cancel.tool", Requirements: []int{32}, needs: shell, run: checkCancelTool, Text: "a cancel while a command runs is answered with cancelled"},
		{ID: "cancel.processes", Requirements: []int{45}, needs: []need{needShell, needProcesses}, run: checkCancelProcesses, Text: "a cancel leaves nothing running of what a command has started"},
		{ID: "cancel.stubborn", Requirements: []int{32, 45}, needs: []need{needShell, needProcesses}, run: checkCancelStubborn, Text: "nor of one that ignores SIGTERM and has left its session"},
		{ID: "cancel.repeated", Requirements: []int{2, 32}, needs: needs, run: checkCancelRepeated, Text: "repeated cancels are answered once"},
		{ID: "cancel.queued", Requirements: []int{32}, needs: needs, run: checkCancelQueued, Text: "a cancel ends the running prompt and one that waits behind it"},
		{ID: "cancel.next", Requirements: []int{33}, needs: needs, run: checkCancelNext, Text: "a prompt right behind a cancel is a turn of its own, and the model knows what was said before"},
		{ID: "cancel.other", Requirements: []int{32, 46}, needs: needs, run: checkCancelOther, Text: "a cancel of one session does nothing to another"},
		{ID: "cancel.request", Requirements: []int{34}, needs: needs, run: checkCancelRequest, Text: "$/cancel_request of a prompt ends the turn: its answer is cancelled, or -32800"},
		{ID: "cancel.request-unknown", Requirements: []int{34}, needs: needs, run: checkCancelRequestUnknown, Text: "$/cancel_request of what is not running is ignored"},
	}
}

func checkCancelIdle(p *probe) {
	s := p.fresh()
	s.cancel()
	s.Tell("session/cancel", map[string]any{"sessionId": "conformance-no-such-session"})
	p.works(s, "a cancel with nothing running")
	s.cancel()
	s.cancel()
	p.works(s, "two cancels with nothing running")
}

func checkCancelWaiting(p *probe) {
	s := p.fresh()
	t := p.prompt(s, waits())
	p.reached(t)
	s.cancel()
	p.stopped(t, "while the model was silent")
	p.works(s, "a cancel")
}

func checkCancelStreaming(p *probe) {
	s := p.fresh()
	t := p.prompt(s, step{"tokens": 4000, "delay": 20})
	p.until(t, "words of the model", func(u update) bool { return u.SessionUpdate == "agent_message_chunk" })
	s.cancel()
	p.stopped(t, "while the model spoke")
	p.works(s, "a cancel")
}

func checkCancelBehind(p *probe) {
	s := p.fresh()
	for range 5 {
		t, line := p.prepare(s, waits())
		_ = s.Write(line + "\n" + `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":` + harness.Marshal(s.id) + "}}\n")
		p.stopped(t, "right behind it")
	}
	p.works(s, "cancels right behind their prompts")
}

// A runaway is a command that runs in a turn until it is killed.
type runaway struct {
	turn *turn
	mark string
}

// lets starts a command that is marked and returns when it is {ready}; what it
// starts to leave it makes {one} or {two} when it has, and {ready} follows these.
func (p *probe) lets(s *session, command string) runaway {
	ready := filepath.Join(s.cwd, "ready")
	one, two := filepath.Join(s.cwd, "one"), filepath.Join(s.cwd, "two")
	placed := strings.NewReplacer(
		"{one}", `: > "`+one+`"`, "{two}", `: > "`+two+`"`, "{ready}", `: > "`+ready+`"`,
		"{one then}", `until [ -e "`+one+`" ]; do sleep 0.02; done`,
		"{both then}", `until [ -e "`+one+`" ] && [ -e "`+two+`" ]; do sleep 0.02; done`,
	)
	mark := p.newMark()
	t := p.prompt(s, runs("export "+harness.MarkVariable+"="+mark+"; "+placed.Replace(command)), says("not reached"))
	p.eventually("the command to run", func() bool {
		ended := t.Answered()
		if exists(ready) {
			return true
		}
		if ended {
			p.fail("the turn ended before its command ran: %s; %s; %s", kinds(t.updates()), harness.Excerpt(t.said()), harness.Excerpt(p.frame(t.request, "the prompt").Raw))
		}
		return false
	})
	return runaway{t, mark}
}

// gone waits until nothing of a command runs on.
func (p *probe) gone(r runaway, after string) {
	grace := min(5*time.Second, p.o.Timeout)
	begun := time.Now()
	left := harness.Marked(r.mark)
	for len(left) > 0 && time.Since(begun) < grace && p.ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		left = harness.Marked(r.mark)
	}
	if len(left) > 0 {
		p.problem("%v after %s there is still %v", grace, after, left)
	}
}

func checkCancelTool(p *probe) {
	s := p.fresh()
	r := p.lets(s, "{ready}; sleep 600")
	s.cancel()
	p.stopped(r.turn, "while a command ran")
	p.works(s, "a cancel")
}

func checkCancelProcesses(p *probe) {
	s := p.fresh()
	r := p.lets(s, "sleep 600 & sleep 600 & {ready}; wait")
	s.cancel()
	p.frame(r.turn.request, "the prompt that was cancelled")
	p.gone(r, "the cancel")
}

func checkCancelStubborn(p *probe) {
	s := p.fresh()
	r := p.lets(s, `trap '' TERM INT HUP; setsid sh -c '{one}; exec sleep 600' </dev/null >/dev/null 2>&1 & ( (setsid sh -c 'trap "" TERM HUP; {two}; sleep 600' </dev/null >/dev/null 2>&1 &) ); {both then}; {ready}; while :; do sleep 1; done`)
	s.cancel()
	p.stopped(r.turn, "while a command ran that ignores SIGTERM")
	p.gone(r, "the cancel")
}

func checkCancelRepeated(p *probe) {
	s := p.fresh()
	t := p.prompt(s, waits())
	p.reached(t)
	before := len(s.Twice())
	for range 10 {
		s.cancel()
	}
	p.stopped(t, "ten times")
	s.cancel()
	p.works(s, "repeated cancels")
	for _, f := range s.Twice()[before:] {
		p.problem("a second answer: %s", harness.Excerpt(f.Raw))
	}
}

func checkCancelQueued(p *probe) {
	s := p.fresh()
	first := p.prompt(s, waits())
	p.reached(first)
	second := p.prompt(s, waits())
	p.pause()
	s.cancel()
	p.stopped(first, "with another behind it")
	p.within(second.request, "the prompt behind the one that was cancelled", cancelBudget)
	p.works(s, "a cancel of two prompts")
}

func checkCancelNext(p *probe) {
	s := p.fresh()
	t := p.prompt(s, waits())
	p.reached(t)
	next, line := p.prepare(s, says("right away"))
	_ = s.Write(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":` + harness.Marshal(s.id) + "}}\n" + line + "\n")
	p.stopped(t, "with another right behind the cancel")
	f := p.frame(next.request, "the prompt right behind a cancel")
	if f.Error != nil || !strings.Contains(next.said(), "right away") {
		p.fail("the prompt right behind a cancel is answered with %s, and the agent said %s", harness.Excerpt(f.Raw), harness.Excerpt(next.said()))
	}
	p.remembers(next, t.tag)
}

func checkCancelOther(p *probe) {
	one := p.fresh()
	two := p.open(one.agent, p.mkdir("two"))
	first, second := p.prompt(one, waits()), p.prompt(two, step{"text": "undisturbed words", "after": 1, "hang": "release"})
	func() {
		defer p.model.Release()
		p.reached(first)
		p.reached(second)
		one.cancel()
		p.stopped(first, "beside another session")
	}()
	p.done(second, "end_turn")
}

func checkCancelRequest(p *probe) {
	s := p.fresh()
	t := p.prompt(s, waits())
	p.reached(t)
	s.Tell("$/cancel_request", map[string]any{"requestId": rawParams(t.ID)})
	f := p.within(t.request, "the prompt whose request was cancelled", cancelBudget)
	if f.Error != nil && f.Error.Code != "-32800" || f.Error == nil && !strings.Contains(string(f.Result), `"cancelled"`) {
		p.problem("it is answered with %s", harness.Excerpt(f.Raw))
	}
	p.works(s, "$/cancel_request")
}

func checkCancelRequestUnknown(p *probe) {
	s := p.fresh()
	t := p.prompt(s, step{"text": "undisturbed words", "after": 1, "hang": "release"})
	func() {
		defer p.model.Release()
		p.reached(t)
		for _, id := range []string{`123456`, `"no such request"`, `null`, `{}`, `"` + strings.Trim(t.ID, `"`) + `x"`, `-1`} {
			s.Tell("$/cancel_request", map[string]any{"requestId": rawParams(id)})
		}
		p.ping(s.agent, "$/cancel_request of what is not running")
	}()
	p.done(t, "end_turn")
}

package acp

import (
	"path/filepath"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func permissionChecks() []Check {
	asking := []need{needShell, needAsking}
	return []Check{
		{ID: "permission.asks", Requirements: []int{31, 48}, needs: asking, run: checkAsks, Text: "the request has options to allow and to reject, names a tool call that was announced, and shows the command"},
		{ID: "permission.waits", Requirements: []int{31}, needs: asking, run: checkAskWaits, Text: "nothing is done before the answer; what is allowed is done"},
		{ID: "permission.reject", Requirements: []int{31}, needs: asking, run: checkReject, Text: "what is rejected is not done, and its tool call fails"},
		{ID: "permission.cancelled", Requirements: []int{31}, needs: asking, run: checkOutcomeCancelled, Text: "the outcome cancelled allows nothing"},
		{ID: "permission.nonsense", Requirements: []int{4, 31}, needs: asking, run: checkNonsense, Text: "an option that was not offered, an answer without an outcome and an error allow nothing"},
		{ID: "permission.cancel", Requirements: []int{32}, needs: asking, run: checkCancelAsking, Text: "a cancel while permission is asked ends the turn, and later requests are asked as before"},
		{ID: "permission.silent", Requirements: []int{32}, needs: asking, run: checkSilentClient, Text: "a client that never answers a request does not keep a cancelled turn from ending"},
	}
}

// asks begins a turn that needs permission to make a file, and returns the question.
func (p *probe) asks(s *session, answer func(question) any) (t *turn, q question, file string) {
	before := len(s.permissions(s.id))
	s.answering(answer)
	p.tags++
	file = filepath.Join(s.cwd, "made-"+strings.ReplaceAll(p.check.ID, ".", "-")+"-"+harness.Marshal(p.tags))
	t = p.prompt(s, runs("touch '"+file+"'"), says("done"))
	p.eventually("session/request_permission", func() bool {
		ended := t.Answered()
		all := s.permissions(s.id)
		if len(all) > before {
			q = all[before]
			return true
		}
		if ended {
			p.fail("the turn ends without session/request_permission: %s", kinds(t.updates()))
		}
		return false
	})
	return t, q, file
}

func open(question) any { return nil }

func checkAsks(p *probe) {
	s := p.asker(p.mkdir("work"))
	t, q, file := p.asks(s, open)
	kinds := map[string]bool{}
	ids := map[string]bool{}
	for _, o := range q.Permission.Options {
		kinds[o.Kind] = true
		if ids[o.OptionID] {
			p.problem("the option %q is there twice", o.OptionID)
		}
		ids[o.OptionID] = true
	}
	if !kinds["allow_once"] || !kinds["reject_once"] && !kinds["reject_always"] {
		p.problem("the options do not let a person allow once and reject: %s", harness.Excerpt(q.params))
	}
	c := &call{id: q.Permission.ToolCall.ToolCallID}
	announced := false
	for _, u := range t.updates() {
		if u.ToolCallID == c.id {
			announced = true
			c.add(u)
		}
	}
	if !announced {
		p.problem("the tool call %q was not announced before", c.id)
	}
	c.add(q.Permission.ToolCall)
	if !strings.Contains(c.title+c.input+c.text, file) {
		p.problem("the request does not show the command: %s", harness.Excerpt(q.params))
	}
	s.reply(q, by("allow_once")(q))
	p.done(t, "end_turn")
}

func checkAskWaits(p *probe) {
	s := p.asker(p.mkdir("work"))
	t, q, file := p.asks(s, open)
	p.pause()
	if exists(file) {
		p.problem("the command ran before the request was answered")
	}
	s.reply(q, by("allow_once")(q))
	p.done(t, "end_turn")
	if !exists(file) {
		p.problem("the command was allowed and did not run")
	}
}

// notDone waits for the end of a turn in which a command was not allowed.
func (p *probe) notDone(s *session, answer func(question) any, what string) {
	t, _, file := p.asks(s, answer)
	p.frame(t.request, "a prompt with "+what)
	if exists(file) {
		p.problem("the command ran after %s", what)
	}
	for _, c := range calls(t.updates()) {
		if c.status == "completed" {
			p.problem("after %s the tool call is completed: %s", what, harness.Excerpt(c.text))
		}
	}
}

func checkReject(p *probe) {
	p.notDone(p.asker(p.mkdir("work")), by("reject_once"), "a rejection")
}

func checkOutcomeCancelled(p *probe) {
	p.notDone(p.asker(p.mkdir("work")), func(question) any { return cancelled() }, "the outcome cancelled")
}

func checkNonsense(p *probe) {
	s := p.asker(p.mkdir("work"))
	for what, answer := range map[string]string{
		"an option that was not offered": `"result":{"outcome":{"outcome":"selected","optionId":"conformance-none"}}`,
		"an answer without an outcome":   `"result":{}`,
		"an unknown outcome":             `"result":{"outcome":{"outcome":"conformance"}}`,
		"an error":                       `"error":{"code":-32603,"message":"the client broke"}`,
	} {
		p.notDone(s, func(q question) any {
			_ = s.Send(`{"jsonrpc":"2.0","id":` + q.id + `,` + answer + `}`)
			return nil
		}, what)
	}
}

func checkCancelAsking(p *probe) {
	s := p.asker(p.mkdir("work"))
	t, q, file := p.asks(s, open)
	s.cancel()
	s.reply(q, cancelled())
	p.stopped(t, "while permission was asked")
	if exists(file) {
		p.problem("the command ran")
	}
	t, q, file = p.asks(s, open)
	s.reply(q, by("allow_once")(q))
	p.done(t, "end_turn")
	if !exists(file) {
		p.problem("after the cancel a command that was allowed does not run")
	}
}

func checkSilentClient(p *probe) {
	s := p.asker(p.mkdir("work"))
	t, q, _ := p.asks(s, open)
	s.cancel()
	defer s.reply(q, cancelled())
	p.stopped(t, "while permission was asked, which the client never answers,")
}

package acp

import (
	"slices"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func hostileChecks() []Check {
	return []Check{
		{ID: "hostile.garbage", Requirements: []int{4}, run: checkGarbage, Text: "lines that are not JSON are survived, and answered at most with an error without an id"},
		{ID: "hostile.parse-error", Requirements: []int{4}, run: checkParseError, Text: "a line that is not JSON is answered with -32700 and the id null"},
		{ID: "hostile.invalid", Requirements: []int{4}, run: checkInvalid, Text: "JSON that is no message is survived and not answered with a result"},
		{ID: "hostile.batch", Requirements: []int{4}, run: checkBatch, Text: "a batch is refused or answered, and survived"},
		{ID: "hostile.params", Requirements: []int{4, 7}, run: checkParams, Text: "requests with missing and ill-typed params are answered with an error"},
		{ID: "hostile.responses", Requirements: []int{3}, run: checkResponses, Text: "answers to what was never asked are ignored"},
		{ID: "hostile.huge", Requirements: []int{4, 44}, run: checkHuge, Text: "lines of many megabytes, JSON or not, are survived"},
		{ID: "hostile.deep", Requirements: []int{4}, run: checkDeep, Text: "deeply nested JSON is survived"},
		{ID: "hostile.text", Requirements: []int{4}, needs: []need{needModel}, run: checkText, Text: "text that is no Unicode, or odd, in a prompt is survived and shown as it is"},
	}
}

var garbage = []string{
	"hello", "{", `{"jsonrpc":"2.0","id":1,`, "\x00\x01\x02", "\xff\xfe", `{"jsonrpc":"2.0","id":"\xff","method":"` + noSuch + `"}`, "nil", "'single'",
	"Content-Length: 10", "<xml/>", strings.Repeat("{", 100),
}

func checkGarbage(p *probe) {
	a := p.begin(launch{})
	before := len(a.Stray())
	for _, line := range garbage {
		_ = a.Send(line)
		p.ping(a, "the line "+harness.Excerpt(line))
	}
	for _, f := range a.Stray()[before:] {
		if f.Error == nil || string(f.ID) != "null" && !strings.Contains(string(f.Raw), "\ufffd") {
			p.problem("garbage is answered with %s", harness.Excerpt(f.Raw))
		}
	}
}

func checkParseError(p *probe) {
	a := p.begin(launch{})
	before := len(a.Stray())
	_ = a.Send("this is not JSON")
	p.ping(a, "a line that is not JSON")
	for _, f := range a.Stray()[before:] {
		if string(f.ID) == "null" && f.Error != nil && f.Error.Code == "-32700" {
			return
		}
		p.problem("it is answered with %s", harness.Excerpt(f.Raw))
	}
	p.problem("no error -32700 with the id null comes")
}

func checkInvalid(p *probe) {
	a := p.begin(launch{})
	before := len(a.Stray())
	for _, line := range []string{
		`1`, `"text"`, `null`, `true`, `{}`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":"none"}`, `{"jsonrpc":"2.0","id":"number","method":5}`,
		`{"jsonrpc":"1.0","id":"old","method":"session/new","params":{"cwd":"relative","mcpServers":[]}}`,
		`{"jsonrpc":"2.0","id":"text","method":"session/new","params":"text"}`, `{"jsonrpc":"2.0","id":"list","method":"session/prompt","params":[1,2]}`,
		`{"jsonrpc":"2.0","id":"both","result":{},"error":{"code":1,"message":"x"}}`,
	} {
		_ = a.Send(line)
		p.ping(a, "the line "+line)
	}
	for _, f := range a.Stray()[before:] {
		if f.Error == nil {
			p.problem("what is no message is answered with a result: %s", harness.Excerpt(f.Raw))
		}
	}
}

func checkBatch(p *probe) {
	a := p.begin(launch{})
	for _, line := range []string{
		`[]`, `[1]`, `[{"jsonrpc":"2.0","id":"one","method":"` + noSuch + `"},{"jsonrpc":"2.0","id":"two","method":"` + noSuch + `"}]`,
		`[{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}]`,
	} {
		_ = a.Send(line)
		p.ping(a, "the batch "+line)
	}
}

func checkParams(p *probe) {
	s := p.session()
	for method, all := range map[string][]string{
		"session/new": {`{}`, `null`, `{"cwd":5,"mcpServers":[]}`, `{"cwd":null,"mcpServers":[]}`, `{"cwd":["/"],"mcpServers":[]}`},
		"session/prompt": {
			`{}`, `{"sessionId":5,"prompt":[]}`, `{"sessionId":null,"prompt":[{"type":"text","text":"x"}]}`, `{"prompt":[{"type":"text","text":"x"}]}`,
			`{"sessionId":` + harness.Marshal(s.id) + `}`, `{"sessionId":` + harness.Marshal(s.id) + `,"prompt":"text"}`, `{"sessionId":` + harness.Marshal(s.id) + `,"prompt":{}}`,
		},
	} {
		for _, params := range all {
			p.refused(s.ask(method, rawParams(params)), method+" with "+params)
		}
	}
	p.ping(s.agent, "ill-typed params")
}

func checkResponses(p *probe) {
	a := p.begin(launch{})
	before := len(a.Stray())
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"nobody","result":null}`, `{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, `{"jsonrpc":"2.0","id":"x","result":{"outcome":{"outcome":"selected","optionId":"allow"}}}`,
	} {
		_ = a.Send(line)
		p.ping(a, "the line "+line)
	}
	for _, f := range a.Stray()[before:] {
		p.problem("an answer is answered: %s", harness.Excerpt(f.Raw))
	}
}

func checkHuge(p *probe) {
	a := p.begin(launch{})
	pad := strings.Repeat("x", 8<<20)
	_ = a.Send(`{"jsonrpc":"2.0","id":"huge","method":"` + noSuch + `","params":{"pad":"` + pad + `"}}`)
	p.ping(a, "a request of 8 MiB")
	_ = a.Send(pad + pad + pad)
	p.ping(a, "a line of 24 MiB that is not JSON")
}

func checkDeep(p *probe) {
	a := p.begin(launch{})
	const depth = 100_000
	_ = a.Send(`{"jsonrpc":"2.0","id":"deep","method":"` + noSuch + `","params":{"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`)
	p.ping(a, "nested arrays")
	_ = a.Send(strings.Repeat(`{"a":`, depth))
	p.ping(a, "nested objects that do not end")
}

// checkText: a lone surrogate cannot be shown as it is, and a line with one may
// count as no JSON; the rest can.
func checkText(p *probe) {
	s := p.fresh()
	const odd = "naïve 日本語 🦢 \u2028 \u200d \ttab"
	t := p.done(p.prompt(s, says(odd)), "end_turn")
	p.holds("what the agent said", t.said(), odd)
	id := s.NextID()
	params := rawParams(`{"sessionId":` + harness.Marshal(s.id) + `,"prompt":[{"type":"text","text":"lone \ud800 surrogate \u0000 and null"}]}`)
	r := s.expect(id, "session/prompt", params)
	before := len(s.Stray())
	_ = s.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"session/prompt","params":` + string(params) + `}`)
	p.eventually("an answer to a prompt with a lone surrogate", func() bool {
		return r.Answered() || slices.ContainsFunc(s.Stray()[before:], func(f *frame) bool { return string(f.ID) == "null" && f.Error != nil })
	})
	p.works(s, "a lone surrogate")
}

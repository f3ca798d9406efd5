package mcp

import (
	"fmt"
	"strings"
)

func transportChecks() []Check {
	return []Check{
		{ID: "transport.ids", Requirements: []int{4}, run: checkIDs, Text: "ids of every kind are echoed exactly: numbers beyond 2^53, strings that look like numbers"},
		{ID: "transport.unknown-method", Requirements: []int{4, 45}, run: checkUnknownMethod, Text: "an unknown method is answered with -32601"},
		{ID: "transport.garbage", Requirements: []int{4}, run: checkGarbage, Text: "lines that are not JSON are survived, and answered at most with an error without an id"},
		{ID: "transport.invalid", Requirements: []int{4, 45}, run: checkInvalidMessages, Text: "JSON that is no valid message is survived; a request with ill-typed params is answered with an error"},
		{ID: "transport.batch", Requirements: []int{4}, run: checkBatch, Text: "a batch is answered or refused, and survived"},
		{ID: "transport.huge", Requirements: []int{4}, run: checkHuge, Text: "lines of many megabytes, JSON or not, are survived"},
		{ID: "transport.deep", Requirements: []int{4}, run: checkDeep, Text: "deeply nested JSON is survived"},
		{ID: "transport.pieces", Requirements: []int{4}, run: checkPieces, Text: "messages may come in pieces, several at once, with CRLF, between blank lines"},
		{ID: "transport.one-shot", Requirements: []int{4, 62}, run: checkOneShot, Text: "requests that were sent before stdin ended are answered, initialize first"},
	}
}

func checkIDs(p *probe) {
	s := p.server()
	ids := []string{`0`, `-1`, `9007199254740993`, `"a"`, `""`, `"1000001"`, `1000001`, `"9007199254740993"`, `"é \" \\ \u0000"`}
	requests := make([]*request, len(ids))
	for i, id := range ids {
		requests[i] = s.Expect(id)
		_ = s.Send(requestLine(id, "ping", nil))
	}
	for i, r := range requests {
		if f := p.frame(r, "a ping with the id "+ids[i]); f.Error != nil {
			p.problem("a ping with the id %s is answered with error %s %s", ids[i], f.Error.Code, f.Error.Message)
		}
	}
}

func checkUnknownMethod(p *probe) {
	for _, method := range []string{"no/such", "tools/delete", "session/new"} {
		f := p.frame(p.server().Ask(method, nil), method)
		if f.Error == nil || f.Error.Code.String() != fmt.Sprint(methodNotFound) {
			p.problem("%s is answered with %s, want error %d", method, excerpt(f.Raw), methodNotFound)
		}
	}
}

func checkGarbage(p *probe) {
	s := p.begin(launch{})
	for _, line := range []string{
		"not json", "{", `{"jsonrpc":"2.0","id":"cut","method":"ping"`, `{"jsonrpc":"2.0","id":"two","method":"ping"}{"x`,
		"\x00\x01\x02", "\xff\xfe\xfd", `{"jsonrpc":"2.0","id":"bytes` + "\xff" + `","method":"no/such"}`, "", "   ", "\xef\xbb\xbf{}",
	} {
		_ = s.Send(line)
		p.ping(s, "the line "+excerpt(line))
	}
	for _, f := range s.Stray() {
		known := strings.Contains(string(f.ID), "bytes") || strings.Contains(string(f.ID), "two")
		if !known && (string(f.ID) != "null" || f.Error == nil) {
			p.problem("garbage is answered with %s", excerpt(f.Raw))
		}
	}
}

func checkInvalidMessages(p *probe) {
	s := p.begin(launch{})
	for _, line := range []string{
		`[]`, `1`, `null`, `"x"`, `{}`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":"old","method":"ping"}`, `{"id":"none","method":"ping"}`,
		`{"jsonrpc":"2.0","id":"five","method":5}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"nobody asked","result":{}}`, `{"jsonrpc":"2.0","id":"nobody asked","error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`,
	} {
		_ = s.Send(line)
		p.ping(s, line)
	}
	for _, params := range []string{`"text"`, `5`, `[1]`, `{"name":5}`, `{"name":"shell","arguments":"text"}`, `{"name":"shell","arguments":[]}`} {
		id := s.NextID()
		r := s.Expect(id)
		_ = s.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` + params + `}`)
		a := p.frame(r, "tools/call with the params "+params)
		if a.Error == nil && !strings.Contains(string(a.Result), `"isError":true`) {
			p.problem("tools/call with the params %s is answered with %s", params, excerpt(a.Raw))
		}
		if a.Error != nil && a.Error.Code.String() != fmt.Sprint(invalidParams) && a.Error.Code.String() != fmt.Sprint(invalidRequest) {
			p.problem("tools/call with the params %s is answered with error %s, want %d", params, a.Error.Code, invalidParams)
		}
	}
}

func checkBatch(p *probe) {
	s := p.begin(launch{})
	_ = s.Send(`[{"jsonrpc":"2.0","id":"b1","method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"b2","method":"ping"}]`)
	p.ping(s, "a batch")
	_ = s.Send(`[]`)
	_ = s.Send(`[1,2]`)
	p.ping(s, "an empty batch and one of numbers")
}

func checkHuge(p *probe) {
	s := p.begin(launch{})
	pad := strings.Repeat("x", 8<<20)
	_ = s.Send(`{"jsonrpc":"2.0","id":"huge","method":"ping","params":{"pad":"` + pad + `"}}`)
	p.ping(s, "a request of 8 MiB")
	_ = s.Send(strings.Repeat(pad, 3))
	p.ping(s, "a line of 24 MiB that is not JSON")
}

func checkDeep(p *probe) {
	s := p.begin(launch{})
	const depth = 200_000
	_ = s.Send(`{"jsonrpc":"2.0","id":"deep","method":"ping","params":{"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`)
	p.ping(s, "nested arrays")
	_ = s.Send(strings.Repeat(`{"a":`, depth))
	p.ping(s, "nested objects that do not end")
}

func checkPieces(p *probe) {
	s := p.begin(launch{})
	id := s.NextID()
	r := s.Expect(id)
	for _, b := range []byte(requestLine(id, "ping", nil) + "\n") {
		_ = s.Write(string(b))
	}
	p.frame(r, "a ping in pieces")
	one, two := s.NextID(), s.NextID()
	first, second := s.Expect(one), s.Expect(two)
	_ = s.Write("\n" + requestLine(one, "ping", nil) + "\r\n\r\n" + requestLine(two, "ping", nil) + "\n")
	p.frame(first, "a ping with CRLF")
	p.frame(second, "a ping behind another")
}

func checkOneShot(p *probe) {
	s := p.begin(launch{raw: true})
	var lines strings.Builder
	var requests []*request
	add := func(method string, params any) {
		id := s.NextID()
		requests = append(requests, s.Expect(id))
		lines.WriteString(requestLine(id, method, params) + "\n")
	}
	add("initialize", initializeParams(latestVersion))
	lines.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	add("tools/list", nil)
	add("tools/call", map[string]any{"name": "no_such_tool", "arguments": map[string]any{}})
	_ = s.Write(lines.String())
	s.CloseStdin()
	for i, r := range requests {
		f := p.frame(r, []string{"initialize", "tools/list", "tools/call"}[i])
		if i == 0 && f.N != 1 {
			p.problem("initialize is not answered first")
		}
		if i < 2 && f.Error != nil {
			p.problem("a request sent before the end is answered with error %s %s", f.Error.Code, f.Error.Message)
		}
	}
	if !s.WaitEnd(p.ctx, p.o.Timeout) {
		p.problem("the server does not end after its stdin has")
	}
}

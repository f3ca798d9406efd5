package acp

import (
	"fmt"
	"strings"

	"gander.dev/gander/conformance/harness"
)

func transportChecks() []Check {
	return []Check{
		{ID: "transport.ids", Requirements: []int{2}, run: checkIDs, Text: "ids of every kind come back as they were: 0, negative, beyond 2^53, empty, long and odd strings"},
		{ID: "transport.null-id", Requirements: []int{2}, run: checkNullID, Text: "a request whose id is null or a fraction is answered or ignored, and survived"},
		{ID: "transport.unknown-method", Requirements: []int{4, 5}, run: checkUnknownMethod, Text: "an unknown method is answered with -32601, also one that begins with _"},
		{ID: "transport.notifications", Requirements: []int{3, 5}, run: checkNotifications, Text: "notifications are not answered, whatever they say"},
		{ID: "transport.pieces", Requirements: []int{1}, run: checkPieces, Text: "messages may come in pieces, several at once, with CRLF, between blank lines"},
		{ID: "transport.pipelined", Requirements: []int{2}, run: checkPipelined, Text: "many requests at once are all answered, each once"},
		{ID: "transport.slow-client", Requirements: []int{24, 44}, needs: []need{needModel}, run: checkSlowClient, Text: "a client that does not read for a while gets everything in the end"},
	}
}

func checkIDs(p *probe) {
	a := p.begin(launch{})
	ids := []string{
		`0`, `-1`, `-9223372036854775808`, `9007199254740993`, `9223372036854775807`, `"a"`, `""`, `"1000001"`, `1000001`, `"9007199254740993"`,
		`"é \" \\ \u0001 \u2028"`, `"` + strings.Repeat("long", 4096) + `"`, `"null"`,
	}
	requests := make([]*request, len(ids))
	for i, id := range ids {
		requests[i] = a.expect(id, noSuch, nil)
		_ = a.Send(harness.RequestLine(id, noSuch, map[string]any{}))
	}
	for i, r := range requests {
		p.frame(r, "a request with the id "+harness.Excerpt(ids[i]))
	}
}

func checkNullID(p *probe) {
	a := p.begin(launch{})
	for _, id := range []string{"null", "1.5", "1e3", "true", "{}", "[1]"} {
		_ = a.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + noSuch + `","params":{}}`)
		p.ping(a, "a request with the id "+id)
	}
}

func checkUnknownMethod(p *probe) {
	a := p.session().agent
	for _, method := range []string{"no/such", "session/no_such", "_no/such", "_gander.dev/x", "tools/list", ""} {
		f := p.frame(a.ask(method, map[string]any{"sessionId": "x"}), "the method "+method)
		if method == "" && f.Error != nil {
			continue // an invalid request as well
		}
		p.noMethod(f, fmt.Sprintf("the method %q", method))
	}
}

func checkNotifications(p *probe) {
	a := p.begin(launch{})
	before := len(a.Stray())
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"no/such","params":{}}`,
		`{"jsonrpc":"2.0","method":"_no/such"}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"conformance-no-such-session"}}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{}}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":[]}`,
		`{"jsonrpc":"2.0","method":"session/cancel"}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"x","update":{}}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}`,
		`{"jsonrpc":"2.0","method":"$/no_such","params":null}`,
	} {
		_ = a.Send(line)
	}
	p.ping(a, "notifications")
	for _, f := range a.Stray()[before:] {
		p.problem("a notification is answered: %s", harness.Excerpt(f.Raw))
	}
}

func checkPieces(p *probe) {
	a := p.begin(launch{})
	id := a.NextID()
	r := a.expect(id, noSuch, nil)
	for _, b := range []byte(harness.RequestLine(id, noSuch, map[string]any{"text": "é"}) + "\n") {
		_ = a.Write(string([]byte{b}))
	}
	p.frame(r, "a request in pieces")
	one, two := a.NextID(), a.NextID()
	first, second := a.expect(one, noSuch, nil), a.expect(two, noSuch, nil)
	_ = a.Write("\n" + harness.RequestLine(one, noSuch, map[string]any{}) + "\r\n\r\n \n" + harness.RequestLine(two, noSuch, map[string]any{}) + "\n")
	p.frame(first, "a request with CRLF")
	p.frame(second, "a request behind another")
}

func checkPipelined(p *probe) {
	a := p.begin(launch{})
	const many = 1000
	requests := make([]*request, many)
	for i := range requests {
		requests[i] = a.ask(noSuch, map[string]any{"i": i})
	}
	for i, r := range requests {
		p.frame(r, fmt.Sprintf("request %d of %d at once", i, many))
	}
}

// checkSlowClient: far more than a pipe holds is on its way while nobody reads.
func checkSlowClient(p *probe) {
	a := p.begin(launch{})
	s := p.open(a, p.dir)
	const words = 20_000
	a.Gate.Lock()
	t := p.prompt(s, step{"tokens": words})
	func() {
		defer a.Gate.Unlock()
		p.eventually("the prompt to reach the model", func() bool { return len(p.requests(t)) > 0 })
		p.pause()
	}()
	p.done(t, "end_turn")
	p.counted(t.said(), words)
}

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Bad input of every kind, in one living process. Each line is followed by a
// probe, a request that nobody implements; what comes before the probe's answer
// and belongs to the line is the line's answer.
func TestBadInput(t *testing.T) {
	const (
		parse    = -32700
		invalid  = -32600
		unknown  = -32601
		params   = -32602
		notFound = -32002
		nothing  = 0
	)
	w := newWorld(t, home, 0)
	e := w.gander(nil)
	e.tolerant = true // the SDK wonders about answers to what it did not ask
	e.initialize()
	s := e.session(w.mkdir("project"))
	onSession := func(id, method, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"sessionId":%q%s}}`, id, method, s.id, more)
	}
	tests := []struct {
		name string
		line string
		id   string // of the answer
		code []int  // allowed error codes; nothing: there is no answer
	}{
		{"text", `hello`, "null", []int{parse}},
		{"half an object", `{"jsonrpc":"2.0","id":"x"`, "null", []int{parse}},
		{"two objects", `{}{}`, "null", []int{parse}},
		{"NUL bytes", "\x00\x00\x00", "null", []int{parse}},
		{"bytes that are no text", "\xff\xfe\xfd", "null", []int{parse}},
		{"single quotes", `{'jsonrpc':'2.0'}`, "null", []int{parse}},
		{"an endless nest", strings.Repeat("[", 200_000), "null", []int{parse, invalid}},
		{"a deep nest", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "null", []int{parse, invalid}},
		{"much text", strings.Repeat("x", 48<<20), "null", []int{parse, invalid}},

		{"an empty batch", `[]`, "null", []int{invalid}},
		{"a batch", `[{"jsonrpc":"2.0","id":"b1","method":"_x"},{"jsonrpc":"2.0","id":"b2","method":"_x"}]`, "null", []int{invalid}},
		{"a string", `"text"`, "null", []int{invalid}},
		{"a number", `42`, "null", []int{invalid}},
		{"true", `true`, "null", []int{invalid}},
		{"null", `null`, "null", []int{invalid}},
		{"an empty object", `{}`, "null", []int{invalid}},
		{"only a version", `{"jsonrpc":"2.0"}`, "null", []int{invalid}},
		{"an old version", `{"jsonrpc":"1.0","id":"old","method":"_x"}`, `"old"`, []int{invalid}},
		{"no version", `{"id":"none","method":"_x"}`, `"none"`, []int{invalid}},
		{"a version that is a number", `{"jsonrpc":2.0,"id":"num","method":"_x"}`, `"num"`, []int{invalid}},
		{"a method that is a number", `{"jsonrpc":"2.0","id":"m","method":7}`, `"m"`, []int{invalid}},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"_x"}`, "null", []int{invalid}},
		{"an id that is an array", `{"jsonrpc":"2.0","id":[1],"method":"_x"}`, "null", []int{invalid}},
		{"an id that is a bool", `{"jsonrpc":"2.0","id":true,"method":"_x"}`, "null", []int{invalid}},

		{"a negative id", `{"jsonrpc":"2.0","id":-1,"method":"_x"}`, "-1", []int{unknown}},
		{"a fraction as id", `{"jsonrpc":"2.0","id":1.5,"method":"_x"}`, "1.5", []int{unknown}},
		{"a long id", `{"jsonrpc":"2.0","id":12345678901234567890123,"method":"_x"}`, "12345678901234567890123", []int{unknown}},
		{"an empty id", `{"jsonrpc":"2.0","id":"","method":"_x"}`, `""`, []int{unknown}},
		{"an id of any letters", `{"jsonrpc":"2.0","id":"ü\n\u2028","method":"_x"}`, `"ü\n\u2028"`, []int{unknown}},
		{"a null id", `{"jsonrpc":"2.0","id":null,"method":"_x"}`, "null", []int{unknown}},

		{"an unknown method", `{"jsonrpc":"2.0","id":"u1","method":"foo/bar"}`, `"u1"`, []int{unknown}},
		{"an empty method", `{"jsonrpc":"2.0","id":"u2","method":""}`, `"u2"`, []int{unknown, invalid}},
		{"a client's method", `{"jsonrpc":"2.0","id":"u3","method":"fs/read_text_file","params":{}}`, `"u3"`, []int{unknown}},
		{"unknown fields", `{"extra":1,"jsonrpc":"2.0","id":"u4","method":"_x","params":{"y":[]}}`, `"u4"`, []int{unknown}},
		{"spaces and CR", "  \t" + `{"jsonrpc":"2.0","id":"u5","method":"_x"}` + " \r", `"u5"`, []int{unknown}},
		{"a huge request", `{"jsonrpc":"2.0","id":"u6","method":"_x","params":{"x":"` + strings.Repeat("x", 12<<20) + `"}}`, `"u6"`, []int{unknown}},
		{"an unknown notification", `{"jsonrpc":"2.0","method":"foo/bar","params":{}}`, "", nil},
		{"a notification with bad params", `{"jsonrpc":"2.0","method":"session/cancel","params":[]}`, "", nil},
		{"a cancel of no session", `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nobody"}}`, "", nil},
		{"a cancel of no request", `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"nobody"}}`, "", nil},
		{"an answer nobody waits for", `{"jsonrpc":"2.0","id":"nobody","result":{}}`, "", nil},
		{"an error nobody waits for", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`, "", nil},
		{"an empty line", ``, "", nil},
		{"a line of spaces", "   \r", "", nil},

		{"params that are an array", `{"jsonrpc":"2.0","id":"p1","method":"session/new","params":[]}`, `"p1"`, []int{params}},
		{"params that are text", `{"jsonrpc":"2.0","id":"p2","method":"session/new","params":"x"}`, `"p2"`, []int{params, invalid}},
		{"no params", `{"jsonrpc":"2.0","id":"p3","method":"session/new"}`, `"p3"`, []int{params}},
		{"a relative directory", `{"jsonrpc":"2.0","id":"p4","method":"session/new","params":{"cwd":"a/b","mcpServers":[]}}`, `"p4"`, []int{params}},
		{"a directory that does not exist", `{"jsonrpc":"2.0","id":"p5","method":"session/new","params":{"cwd":"/no/such/dir","mcpServers":[]}}`, `"p5"`, []int{params, notFound}},
		{"a directory of a wrong type", `{"jsonrpc":"2.0","id":"p6","method":"session/new","params":{"cwd":7,"mcpServers":[]}}`, `"p6"`, []int{params}},
		{"a prompt without session", `{"jsonrpc":"2.0","id":"p7","method":"session/prompt","params":{"prompt":[]}}`, `"p7"`, []int{params, notFound}},
		{"a prompt that is text", onSession(`"p8"`, "session/prompt", `,"prompt":"hello"`), `"p8"`, []int{params}},
		{"no prompt", onSession(`"p9"`, "session/prompt", ``), `"p9"`, []int{params}},
		{"a prompt of an unknown session", `{"jsonrpc":"2.0","id":"p10","method":"session/prompt","params":{"sessionId":"nobody","prompt":[]}}`, `"p10"`, []int{notFound}},
		{"a mode of an unknown session", `{"jsonrpc":"2.0","id":"p11","method":"session/set_mode","params":{"sessionId":"nobody","modeId":"auto"}}`, `"p11"`, []int{notFound}},
		{"an unknown mode", onSession(`"p12"`, "session/set_mode", `,"modeId":"zzz"`), `"p12"`, []int{params}},
		{"an unknown option", onSession(`"p13"`, "session/set_config_option", `,"configId":"zzz","value":"x"`), `"p13"`, []int{params}},
		{"an option's value of a wrong type", onSession(`"p14"`, "session/set_config_option", `,"configId":"mode","value":{}`), `"p14"`, []int{params}},
		{"an unknown login", `{"jsonrpc":"2.0","id":"p15","method":"authenticate","params":{"methodId":"zzz"}}`, `"p15"`, []int{params, unknown}},
		{"a version that is text", `{"jsonrpc":"2.0","id":"p16","method":"initialize","params":{"protocolVersion":"1"}}`, `"p16"`, []int{params}},
	}
	for i, tt := range tests {
		got := e.answersTo(tt.line, tt.id, fmt.Sprintf("probe-%d", i))
		want := "no answer"
		if tt.code != nil {
			want = fmt.Sprintf("one error of %v with id %s", tt.code, tt.id)
		}
		if !fits(got, tt.id, tt.code) {
			t.Errorf("%s: %s\n\tis answered %s\n\twant %s", tt.name, shorten(tt.line), shorten(lines(got)), want)
		}
	}
	s.prompt(script(t, says("alive"))).done("end_turn")
}

// answersTo sends a line and returns the agent's responses up to that of the
// probe, and to that with the id, when there should be one: requests may overtake
// each other.
func (e *editor) answersTo(line, id, probe string) []frame {
	e.t.Helper()
	e.mu.Lock()
	from := len(e.rec.frames)
	e.mu.Unlock()
	e.raw(line)
	e.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"_probe"}`, probe))
	var got []frame
	e.wait("the answers of "+probe+" and "+id+" after "+shorten(line), func() bool {
		got = nil
		probed, answered := false, id == ""
		for _, f := range e.rec.frames[from:] {
			switch {
			case f.out || f.Method != "":
			case string(f.ID) == `"`+probe+`"`:
				probed = true
			default:
				got = append(got, f)
				answered = answered || sameJSON(string(f.ID), id)
			}
		}
		return probed && answered
	})
	return got
}

func fits(got []frame, id string, codes []int) bool {
	if codes == nil {
		return len(got) == 0
	}
	if len(got) != 1 || !sameJSON(string(got[0].ID), id) {
		return false
	}
	var err rpcError
	if json.Unmarshal(got[0].Error, &err) != nil {
		return false
	}
	return slices.Contains(codes, err.Code)
}

// sameJSON compares ids as values: the same text may be escaped in two ways. A
// number stays as it is written.
func sameJSON(a, b string) bool {
	var x, y string
	if json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && a != "null" && b != "null" {
		return x == y
	}
	return a == b
}

func lines(all []frame) string {
	if len(all) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for _, f := range all {
		b.WriteString(f.line)
		b.WriteByte(' ')
	}
	return b.String()
}

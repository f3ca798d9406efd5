package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// The codes that requirements name.
const (
	parseError     = -32700
	invalidRequest = -32600
	methodNotFound = -32601
	invalidParams  = -32602
	internalError  = -32603
)

// An answer is what a tool call came to.
type answer struct {
	frame   *frame
	code    int    // of a protocol error, else 0
	message string // of a protocol error, or the text of a result that is one
	Content []block
	IsError bool
	// Structured is what goes with the text in newer versions.
	Structured json.RawMessage `json:"structuredContent"`
}

// A block is one piece of a result's content.
type block struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Data        string `json:"data"`
	MimeType    string `json:"mimeType"`
	Annotations struct {
		Audience []string `json:"audience"`
		Priority *float64 `json:"priority"`
	} `json:"annotations"`
}

func (b block) is(audience string) bool { return slices.Contains(b.Annotations.Audience, audience) }

// failed says whether the call failed, in either profile's way.
func (a answer) failed() bool { return a.code != 0 || a.IsError }

// text is what one audience gets to see.
func (a answer) text(audience string) string {
	var parts []string
	for _, b := range a.Content {
		if b.Type == "text" && (len(b.Annotations.Audience) == 0 || b.is(audience)) {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// words is everything that an answer says.
func (a answer) words() string { return string(a.frame.Raw) }

// args are the arguments of a call.
type args map[string]any

// callParams are the params of tools/call.
func callParams(name string, arguments args, meta map[string]any) map[string]any {
	params := map[string]any{"name": name, "arguments": arguments}
	if meta != nil {
		params["_meta"] = meta
	}
	return params
}

// meta is the metadata that goose sends, for the check's directory.
func (p *probe) meta() map[string]any {
	return map[string]any{"agent-working-dir": p.target(p.dir), "agent-session-id": "conformance-session"}
}

// ask calls a tool and does not wait.
func (p *probe) ask(s *server, name string, arguments args) *request {
	return s.Ask("tools/call", callParams(name, arguments, p.meta()))
}

// call calls a tool of the shared server in the check's directory.
func (p *probe) call(name string, arguments args) answer {
	return p.callOn(p.server(), name, arguments)
}

func (p *probe) callOn(s *server, name string, arguments args) answer {
	return p.answer(p.ask(s, name, arguments), name)
}

// callWith calls with metadata of its own, added to the usual.
func (p *probe) callWith(s *server, name string, arguments args, meta map[string]any) answer {
	all := p.meta()
	maps.Copy(all, meta)
	return p.answer(s.Ask("tools/call", callParams(name, arguments, all)), name)
}

// answer waits for a call's answer.
func (p *probe) answer(r *request, name string) answer {
	return p.parse(p.frame(r, "the call of "+name), name)
}

func (p *probe) parse(f *frame, name string) answer {
	a := answer{frame: f}
	if f.Error != nil {
		code, _ := f.Error.Code.Int64()
		a.code, a.message = int(code), f.Error.Message
		return a
	}
	if err := json.Unmarshal(f.Result, &a); err != nil || a.Content == nil {
		p.fail("the result of %s has no content: %s", name, excerpt(f.Raw))
	}
	if a.IsError {
		a.message = a.text("assistant")
	}
	return a
}

// ok calls a tool that has to work.
func (p *probe) ok(name string, arguments args) answer {
	a := p.call(name, arguments)
	p.worked(a, name, arguments)
	return a
}

func (p *probe) worked(a answer, name string, arguments args) {
	if a.failed() {
		p.fail("%s %s fails: %d %s", name, excerpt(marshal(arguments)), a.code, excerpt(a.message))
	}
}

// refused notes a problem unless a call failed as it should: with the code as a
// protocol error in the classic profile, as a result that is an error in the
// current one; and with the words.
func (p *probe) refused(what string, a answer, code int, words ...string) {
	switch {
	case !a.failed():
		p.problem("%s works, and should fail: %s", what, excerpt(a.words()))
	case a.code != 0 && a.code != code, a.code == 0 && p.classic():
		p.problem("%s fails with code %d, want %d: %s", what, a.code, code, excerpt(a.message))
	default:
		p.holds("the error of "+what, a.message, words...)
	}
}

// split checks the layout in which the model and the person each have a block,
// and returns both texts.
func (p *probe) split(what string, a answer, priority float64) (assistant, user string) {
	if len(a.Content) != 2 {
		p.fail("%s has %d blocks, want one for the assistant and one for the user: %s", what, len(a.Content), excerpt(a.words()))
	}
	first, second := a.Content[0], a.Content[1]
	if first.Type != "text" || !slices.Equal(first.Annotations.Audience, []string{"assistant"}) || first.Annotations.Priority != nil {
		p.problem("%s: the first block is not a text for the assistant without a priority: %s", what, excerpt(a.words()))
	}
	if second.Type != "text" || !slices.Equal(second.Annotations.Audience, []string{"user"}) ||
		second.Annotations.Priority == nil || *second.Annotations.Priority != priority {
		p.problem("%s: the second block is not a text for the user with priority %v: %s", what, priority, excerpt(a.words()))
	}
	return first.Text, second.Text
}

// answered says whether the answer is there.
func answered(r *request) bool {
	select {
	case <-r.Done:
		return true
	default:
		return false
	}
}

package router

import (
	"encoding/json"
	"io"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
)

// maxLooked bounds what is looked at of a command's output, in bytes, at its end.
const maxLooked = 64 << 10

// explain tells the person of programs that a command did not find in the sandbox although the machine
// has them, of arguments that were too long, and of bounds of the policy that were met, each once. update is the last one of a tool call.
func (r *relay) explain(update json.RawMessage) {
	u := readToolUpdate(update)
	if !u.final() || r.b.sb == nil {
		return
	}
	var m confine.Missing
	for _, raw := range listOf(u.content) {
		text := acp.ParseContentBlock(acp.ContentBlock(acp.Member(raw, "content"))).Text
		_, _ = io.WriteString(&m, text[max(0, len(text)-maxLooked):]+"\n") // it never fails
	}
	for _, why := range m.Say(r.b.sb.Info()) {
		r.s.spawn(func() { r.s.notice("info", why.Error()) }) // which takes mu
	}
	if limited, ok := r.b.sb.(sandbox.Limited); ok {
		r.s.spawn(func() {
			for _, sentence := range limited.Exceeded(r.s.now) {
				r.s.notice("warning", sentence)
			}
		})
	}
}

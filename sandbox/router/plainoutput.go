package router

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"gander.dev/gander/acp"
)

// plainOutput returns what a command has printed as text: without colours and other orders to a
// terminal, and of a line that was written over the last one.
func plainOutput(text string) string {
	if !strings.ContainsAny(text, "\x1b\r\b\a\u009b") {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(ansi.Strip(text)) {
		line, end := strings.CutSuffix(line, "\n")
		line = strings.TrimRight(line, "\r")
		b.WriteString(withoutBackspaces(line[strings.LastIndexByte(line, '\r')+1:]))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// withoutBackspaces returns a line with what was taken back.
func withoutBackspaces(line string) string {
	if !strings.ContainsAny(line, "\b\a") {
		return line
	}
	var out []rune
	for _, r := range line {
		switch {
		case r == '\b' && len(out) > 0:
			out = out[:len(out)-1]
		case r != '\b' && r != '\a':
			out = append(out, r)
		}
	}
	return string(out)
}

// controls reports whether strings of raw JSON may hold what plainOutput takes away.
func controls(raw json.RawMessage) bool {
	return bytes.Contains(raw, []byte(`\u00`)) || bytes.Contains(raw, []byte(`\r`)) || bytes.Contains(raw, []byte(`\b`))
}

// plain makes the output of a command plain, in the content of its tool call and in what the agent
// has of it besides.
func (u *toolUpdate) plain(set map[string]any) {
	if controls(u.content) {
		list := listOf(u.content)
		for i, raw := range list {
			text := acp.ParseContentBlock(acp.ContentBlock(acp.Member(raw, "content"))).Text
			if plain := plainOutput(text); plain != text {
				list[i] = marshal(acp.ToolContent(plain))
			}
		}
		set["content"] = list
	}
	if !controls(u.rawOutput) {
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(u.rawOutput, &fields) != nil {
		return // it is no object
	}
	for name, raw := range fields {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			fields[name] = quote(plainOutput(text))
		}
	}
	set["rawOutput"] = fields
}
